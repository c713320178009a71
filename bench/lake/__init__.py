"""How long a store's history takes to become a lake, and what a little more of it costs."""

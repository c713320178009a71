"""The worker: one loop that claims and settles, and the small loops beside it."""

"""The lake: a store's history as tables that grow, exactly once, whatever is cut short."""

"""What a store over an ordered key-value database stands on. The store itself isn't there yet."""

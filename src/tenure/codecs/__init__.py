"""How values become payload bytes and back. Stores know only the bytes and the codec's name."""

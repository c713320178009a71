"""A music library: sound files are taken in, then drawn."""

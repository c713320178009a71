"""Examples: small apps to read, run and take from."""

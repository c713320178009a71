"""What Tenure costs and how fairly it serves, measured: `python -m bench`."""

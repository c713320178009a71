"""Rows of a DataFrame, enriched by a rate-limited job."""

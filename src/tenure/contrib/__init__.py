"""Tenure inside other people's frameworks. Each package needs the extra of its name."""

"""Measurements of the package. They are not part of it and are not installed with it."""

"""Samplers and shuffles: which items to load, and in which order."""

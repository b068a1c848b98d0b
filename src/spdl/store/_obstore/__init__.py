"""Requests that obstore carries."""

"""Queues of the user's between stages, and merges that the user writes; both run on the event loop."""

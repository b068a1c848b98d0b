"""Hooks: the user's async context managers around stages and tasks, which run on the event loop."""

"""The engine: declare a graph of stages, run it on threads, observe it."""

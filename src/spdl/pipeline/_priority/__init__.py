"""Pools of threads, processes or interpreters that several stages share, the most urgent call first."""

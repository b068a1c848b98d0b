"""The kinds of stages at run time, and what they run with: executors, pools, hooks, queues, traces."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

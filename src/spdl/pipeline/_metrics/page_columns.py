"""The columns of a thread's row on the page: with this module, writing into it needs no other."""

__all__ = ["COLUMNS", "CONSUMER", "IDLE", "THREAD"]

# Where the time at which a consumer began to wait is, in front of the rows; 0 if none does.
CONSUMER = 0
# The thread's number as the system knows it (0 if the row is free), since when it is idle, and then a column for each
# source and each stage: when the thread last began to pull it, or to run its op.
THREAD, IDLE, COLUMNS = 0, 1, 2

"""The columns of a thread's row on the page: with this module, writing into it needs no other."""

__all__ = ["COLUMNS", "CONSUMER", "IDENTITY", "IDLE", "ITEM", "THREAD"]

# Where the time at which a consumer began to wait is, in front of the rows; 0 if none does.
CONSUMER = 0
# The thread's number as the system knows it (0 if the row is free) and as Python does, the origin of the item that its
# last op got, since when it is idle, and then a column for each source and each stage: when the thread last began to
# pull it, or to run its op. The origin is the item's position times the number of sources plus the index of its source;
# that of a batch, or of one of several results, is that of the first item that it comes from, subtracted from -1.
THREAD, IDENTITY, ITEM, IDLE, COLUMNS = 0, 1, 2, 3, 4

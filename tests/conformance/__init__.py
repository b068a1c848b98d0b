"""Files of other projects, read by us and by a library that we did not write. See `make conformance`."""

"""Scalable and performant data loading: a threaded pipeline engine and GIL-free media and array I/O."""

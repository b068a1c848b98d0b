"""Media and arrays: bytes to decoded frames to buffers to framework arrays."""

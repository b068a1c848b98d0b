"""HTTP/1.1 for reading: requests, answers and connections that are used again."""

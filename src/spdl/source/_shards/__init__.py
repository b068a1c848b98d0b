"""Sources whose records lie in files that are read in parts."""

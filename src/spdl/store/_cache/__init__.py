"""What was read before is kept in memory and on disk."""

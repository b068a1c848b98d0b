"""How to read well: which ranges to ask for, how many at once, and what to do if an answer is late or wrong."""

"""Sources of samples with labels, which are records with named fields."""

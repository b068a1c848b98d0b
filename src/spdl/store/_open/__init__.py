"""URLs: which store they name, and which object."""

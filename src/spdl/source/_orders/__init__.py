"""Orders of an epoch, and the shares of ranks in them."""

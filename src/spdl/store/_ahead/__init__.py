"""Reading ahead, in an order that is known."""

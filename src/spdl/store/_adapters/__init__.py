"""The stores: one module for each kind of place that data lives in."""

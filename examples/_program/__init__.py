"""What the example programs share: options, measuring in a process of its own, records, plots, photos, transforms.

Nothing here is needed to use the package; it keeps the programs down to what a user would write.
"""

"""Code that the example programs share: options, measuring in separate processes, records, plots, photos, transforms.

You do not need any of it to use the package. It keeps the programs down to what a user would write.
"""

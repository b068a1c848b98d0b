"""Datasets as people write them: kinds that threads may share, and kinds that they may not.

Nothing here knows how the loader chooses. Each kind is deterministic with PyTorch's workers.
"""

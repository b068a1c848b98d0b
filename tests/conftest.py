"""What every test gets."""

import gc

pytest_plugins = ["tests.leaks", "tests.cuda_driver", "pytester"]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the many collections of garbage: it stays for good."""
    gc.collect()
    gc.freeze()

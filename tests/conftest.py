"""Settings and fixtures for all tests."""

import gc
import signal

from hypothesis import settings

# No test judges speed, and one example may take long on a busy machine. All other settings stay as chosen.
settings.register_profile("unhurried", parent=settings.default, deadline=None)
settings.load_profile("unhurried")

pytest_plugins = ["tests.leaks", "tests.cuda_driver", "pytester"]


# A shell that runs the tests in the background makes them ignore Ctrl-C, and programs that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Freeze everything imported and collected so far, which stays for good, so that garbage collections skip it."""
    gc.collect()
    gc.freeze()

"""What every test gets."""

import gc
import signal

from hypothesis import settings

# No test judges speed, and one example may take long where the machine is busy. All else stays as it was chosen.
settings.register_profile("unhurried", parent=settings.default, deadline=None)
settings.load_profile("unhurried")

pytest_plugins = ["tests.leaks", "tests.cuda_driver", "pytester"]


# A shell that runs the tests in the background has it that Ctrl-C is ignored, which programs that tests start inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the many collections of garbage: it stays for good."""
    gc.collect()
    gc.freeze()

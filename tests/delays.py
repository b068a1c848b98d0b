"""The mark of tests that measure times."""

import pytest

# Runs a failed test again: a busy machine delays threads now and then, a defect always does.
tolerates_delays = pytest.mark.flaky(reruns=4, only_rerun=["AssertionError"])

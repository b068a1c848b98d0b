"""The public API is the recorded one, so that every change of it is intended and shows in a diff.

To record an intended change: ``python -m tests.repository.test_public_api``.
"""

from __future__ import annotations

import difflib
from importlib.util import find_spec
from pathlib import Path

from tests.repository.public_api import NEEDS_TORCH, describe_public_api

RECORD = Path(__file__).with_name("public_api.txt")


def test_the_public_api_is_the_recorded_one() -> None:
    recorded = RECORD.read_text(encoding="utf-8").splitlines()
    assert len(recorded) > 300
    if find_spec("torch") is None:
        recorded = [line for line in recorded if not line.startswith(NEEDS_TORCH)]
    changes = list(difflib.unified_diff(recorded, describe_public_api(), "recorded", "found", n=0, lineterm=""))
    assert not changes, "\n".join(changes)


if __name__ == "__main__":
    RECORD.write_text("\n".join(describe_public_api()) + "\n", encoding="utf-8")

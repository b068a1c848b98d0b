"""A run that is killed and goes on with other numbers of processes has the losses of one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

import pretrain_text  # noqa: E402 - it needs torch.
from pretrain_text import Part  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

# Each part imports torch in all of its processes.
pytestmark = pytest.mark.timeout(240)


def test_a_run_that_is_killed_and_goes_on_in_other_numbers_has_the_same_losses(tmp_path: Path) -> None:
    arguments = ["--texts=3", "--global-batch=6", "--steps=24", "--every=4"]
    folders = [tmp_path / name for name in ("whole", "killed")]
    for folder in folders:
        folder.mkdir()
    whole = pretrain_text.run_and_kill(arguments, folders[0], [Part(1, None)])
    # Between two checkpoints, and after the first step behind one.
    killed = pretrain_text.run_and_kill(arguments, folders[1], [Part(2, 6), Part(3, 13), Part(1, None)])
    assert len(whole) == 24
    assert killed == whole
    # There is something to learn, and it is learnt.
    assert sum(whole[-4:]) < 0.8 * sum(whole[:4])

"""Python's ``help`` says what is in a batch."""

from __future__ import annotations

import inspect
import pydoc

import pytest

from spdl.dataloader import ClipBatch, ImageBatch, LabelledBatch, SoundBatch, TextBatch


@pytest.mark.parametrize("batch", [LabelledBatch, ImageBatch, ClipBatch, SoundBatch, TextBatch])
def test_help_describes_the_fields_of_a_batch(batch: type) -> None:
    text = pydoc.plain(pydoc.render_doc(batch))
    fields = [name for name, kind in inspect.get_annotations(batch).items() if "ClassVar" not in str(kind)]
    assert batch.medium in {*fields, "data"}  # type: ignore[attr-defined]
    for name in fields:
        assert f" {name}: " in text

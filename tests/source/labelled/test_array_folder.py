"""The folder of arrays lists npy and npz files by their classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdl.source import ArrayFolder, ArraySample


def test_files_are_listed_by_their_classes(tmp_path: Path) -> None:
    for name in ("owl/2.npz", "fox/1.npy", "fox/deep/3.NPY", "fox/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    folder = ArrayFolder(tmp_path)
    assert [(Path(it.file).name, it.label, it.index) for it in folder] == [
        ("1.npy", 0, 0),
        ("3.NPY", 0, 1),
        ("2.npz", 1, 2),
    ]
    assert type(folder[0]) is ArraySample
    assert folder[0].path == folder[0].file
    assert (folder.classes, folder.targets) == (["fox", "owl"], [0, 0, 1])
    assert repr(folder).endswith("3 files of arrays of 2 classes")
    assert [it.label for it in ArrayFolder(tmp_path, extensions=".npz", class_to_idx={"owl": 7})] == [7]
    with pytest.raises(
        FileNotFoundError, match=r"no file with the ending \.npz is in the folders of the classes 'fox'"
    ):
        ArrayFolder(tmp_path, extensions=".npz")

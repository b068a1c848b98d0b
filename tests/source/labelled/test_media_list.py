"""Lists and folders of videos and sounds keep windows and labels together."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from spdl.source import AudioFolder, MediaList, MediaSample, VideoFolder


def test_a_list_is_a_sequence_of_records() -> None:
    media = MediaList([("a.mp4", None, 3), (Path("b.mp4"), (1, 2.5), "x"), (b"bytes", [0, 1], None)])
    assert len(media) == 3
    assert media[0] == MediaSample("a.mp4", None, 3, "a.mp4", 0)
    assert media[1] == MediaSample("b.mp4", (1.0, 2.5), "x", "b.mp4", 1)
    assert media[-1] == MediaSample(b"bytes", (0.0, 1.0), None, "media 2", 2)
    assert [sample.index for sample in media[1:]] == [1, 2]
    assert pickle.loads(pickle.dumps(media))[1] == media[1]  # noqa: S301 - our own.
    assert [it.label for it in MediaList([("a", None, "dog"), ("b", None, "cat")], classes=["cat", "dog"])] == [1, 0]


def test_the_fingerprint_says_what_is_in_it() -> None:
    items: list[tuple[Any, Any, Any]] = [("a", None, 0), ("b", (0, 1), 1)]
    changed = [("a", None, 0), ("b", (0, 2), 1)]
    assert len({MediaList(each).fingerprint() for each in (items, items[:1], items[::-1], changed)}) == 4


def test_folders_have_the_files_of_their_kind(tmp_path: Path) -> None:
    for name in ("run/1.mp4", "run/2.WebM", "run/1.wav", "swim/deep/3.mkv", "swim/x.FLAC", "swim/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    videos, sounds = VideoFolder(tmp_path), AudioFolder(tmp_path)
    assert [(Path(it.path).name, it.label) for it in videos] == [("1.mp4", 0), ("2.WebM", 0), ("3.mkv", 1)]
    assert [(Path(it.path).name, it.label) for it in sounds] == [("1.wav", 0), ("x.FLAC", 1)]
    assert videos[2] == MediaSample(videos[2].path, None, 1, videos[2].path, 2)
    assert videos.fingerprint() != sounds.fingerprint()
    assert repr(sounds) == f"AudioFolder({str(tmp_path)!r}): 2 sounds of 2 classes"
    with pytest.raises(FileNotFoundError, match=r"\.wav.*allow_empty"):
        AudioFolder(tmp_path / "swim")


@pytest.mark.parametrize(
    ("items", "options", "error", "message"),
    [
        ("videos", {}, TypeError, "`items`"),
        (3, {}, TypeError, "`items`"),
        ([("a", 1)], {}, TypeError, r"`items\[0\]`"),
        ([("a", None, 1), ("a", "01", 1)], {}, TypeError, r"`items\[1\]`"),
        ([("a", 3, 1)], {}, TypeError, r"`items\[0\]`"),
        ([("a", (1, 2, 3), 1)], {}, TypeError, r"`items\[0\]`"),
        ([("a", (1, 1), 1)], {}, ValueError, r"`items\[0\]`.*start < end"),
        ([("a", (-1, 1), 1)], {}, ValueError, r"`items\[0\]`"),
        ([("a", None, "eel")], {"classes": ["cat"]}, ValueError, r"`items\[0\]`.*cat"),
        ([], {"classes": ["cat", "cat"]}, ValueError, "`classes`"),
    ],
)
def test_mistakes_are_explained(items: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MediaList(items, **options)

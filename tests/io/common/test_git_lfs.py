"""Pointers of Git LFS in the place of files, as a clone without `git lfs pull` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import ImageLoader
from spdl.io import (
    AudioReader,
    FormatError,
    LoadError,
    TarFile,
    VideoReader,
    iter_tarfile,
    load_audio,
    load_image,
    load_image_batch,
    load_mask_batch,
    load_npy,
    load_npz,
    load_video,
    load_wav,
)
from spdl.source import JsonLines, ParquetFiles, TarShards, TokenFiles
from spdl.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)

READERS: dict[str, Callable[[Any], Any]] = {
    "photo.jpg": load_image,
    "batch.png": lambda path: load_image_batch([path], width=2, height=2),
    "mask.png": lambda path: load_mask_batch([path], width=2, height=2),
    "loader.jpg": lambda path: next(iter(ImageLoader([path], 1, size=2, output="numpy", num_threads=1))),
    "clip.mp4": load_video,
    "reader.mp4": VideoReader,
    "sound.flac": load_audio,
    "sound.mp3": AudioReader,
    "sound.wav": load_wav,
    "array.npy": load_npy,
    "arrays.npz": load_npz,
    "iter.tar": lambda path: list(iter_tarfile(path)),
    "file.tar": TarFile,
    "shard.tar": TarShards,
    "tokens.bin": lambda path: TokenFiles(path, dtype="uint16"),
    "stored.bin": lambda path: TokenFiles(path.name, dtype="uint16", store=LocalStore(path.parent)),
    "rows.parquet": lambda path: len(ParquetFiles(path)),
    "tokens.parquet": lambda path: len(TokenFiles(path)),
    "tokens.arrow": lambda path: len(TokenFiles(path)),
    "lines.jsonl": lambda path: JsonLines(path)[0],
}


@pytest.mark.parametrize("name", READERS)
def test_a_pointer_of_git_lfs_is_named(name: str, tmp_path: Any) -> None:
    path = tmp_path / name
    path.write_bytes(POINTER)
    with pytest.raises((FormatError, LoadError, RuntimeError), match=r"pointer of Git LFS.*`git lfs pull`") as raised:
        READERS[name](path)
    assert name in str(raised.value)


def test_a_pointer_in_memory_is_no_image() -> None:
    with pytest.raises(LoadError, match=r"pointer of Git LFS.*`git lfs pull`"):
        load_image_batch([POINTER], width=2, height=2)

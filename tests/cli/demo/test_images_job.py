import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from spdl.cli._demo.images_job import LoadImages, PassesOverFolder, count_images, default_threads


@given(st.integers(1, 20), st.integers(1, 7), st.integers(1, 60))
def test_passes_hold_every_file_once_and_in_order(num_files: int, batch_size: int, num_batches: int) -> None:
    paths = [f"{index}.jpg" for index in range(num_files)]
    source = PassesOverFolder(paths, batch_size, 1000, LoadImages(8))
    batches = list(itertools.islice(source, num_batches))
    in_one_pass = -(-num_files // batch_size)
    for index in range(0, num_batches, in_one_pass):
        one_pass = batches[index : index + in_one_pass]
        assert all(len(batch) == batch_size for batch in one_pass[: in_one_pass - 1])
        found = [path for batch in one_pass for path in batch]
        assert found == paths[: len(found)]


@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_later_passes_leave_out_what_failed(whole: list[bool]) -> None:
    paths = [f"{index}.jpg" for index in range(len(whole))]
    load = LoadImages(8)
    passes = iter(PassesOverFolder(paths, len(paths), 1000, load))
    assert next(passes) == paths
    load.failures.update({path: "spoilt" for path, is_whole in zip(paths, whole, strict=True) if not is_whole})
    assert next(passes, []) == [path for path, is_whole in zip(paths, whole, strict=True) if is_whole]


def test_no_time_left() -> None:
    assert list(PassesOverFolder(["a.jpg", "b.jpg"], 1, -1, LoadImages(8))) == [["a.jpg"]]


def test_images_are_what_pillow_makes_of_them(photos: Path) -> None:
    paths = [str(path) for path in sorted(photos.glob("*.jpg"))[:3]]
    batch = LoadImages(32)(paths)
    assert batch is not None
    assert count_images(batch) == 3
    for row, path in zip(np.asarray(batch), paths, strict=True):
        with Image.open(path) as image:
            padded = ImageOps.pad(image.convert("RGB"), (32, 32), Image.Resampling.BICUBIC)
        expected = np.asarray(padded, dtype=np.int16)
        difference = np.abs(row.astype(np.int16) - expected)
        assert difference.mean() <= 0.5
        assert np.percentile(difference, 99.9) <= 4


@pytest.mark.parametrize("num_whole", [0, 1, 5])
def test_each_failed_file_has_its_reason(num_whole: int, spoil: Callable[..., Path]) -> None:
    folder = spoil(3, num_whole=num_whole)
    (folder / "void.jpg").touch()
    paths = sorted(map(str, folder.iterdir()))
    load = LoadImages(16)
    batch = load(paths)
    assert (0 if batch is None else count_images(batch)) == num_whole
    assert (load.num_read, load.num_failed) == (num_whole + 4, 4)
    assert set(load.failures) == {path for path in paths if "spoilt-" in path or "void" in path}
    # A reason is about its own file, and does not repeat the name that stands in front of it.
    assert load.failures[str(folder / "void.jpg")] != load.failures[str(folder / "spoilt-0.jpg")]
    assert not any(str(folder) in reason or "\n" in reason for reason in load.failures.values())


@pytest.mark.parametrize(("cores", "threads"), [(64.0, 64), (2.0, 2), (2.9, 2), (0.5, 1)])
def test_a_container_gets_as_many_threads_as_its_quota_has_cores(
    cores: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spdl.cli._demo.images_job.available_cores", lambda: cores)
    assert default_threads() == threads

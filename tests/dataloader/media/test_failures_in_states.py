"""What failed and what took its place is part of the state: a run that goes on is the run that was not cut."""

from __future__ import annotations

import io
import itertools
import json
import linecache
import shutil
import sys
import wave
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av.media import clip
from tests.io.images import make_jpeg

from spdl.dataloader import ArrayLoader, AudioLoader, ClipLoader, ImageLoader
from spdl.io import save_npz
from spdl.source import MediaList

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 11
BROKEN = (1, 2, 5, 10)


def _image(index: int) -> bytes:
    return make_jpeg(12 + index, 10, seed=index)


def _sound(index: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(np.random.default_rng(index).integers(-3000, 3000, 900, np.int16).tobytes())
    return file.getvalue()


def _arrays(index: int) -> bytes:
    file = io.BytesIO()
    save_npz(file, {"image": np.full((2, 3), index), "label": np.array(index % 2)})
    return file.getvalue()


def _write(root: Path, make: Callable[[int], bytes], suffix: str) -> list[str]:
    for index in range(COUNT):
        path = root / f"{index:02}{suffix}"
        path.write_bytes(b"no medium" if index in BROKEN else make(index))
    return [str(path) for path in sorted(root.glob(f"*{suffix}"))]


@pytest.fixture(scope="module", params=["images", "clips", "sounds", "arrays"])
def make_loader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that makes a loader over files of which some are corrupt."""
    root = tmp_path_factory.mktemp(request.param)
    options: dict[str, Any] = {"shuffle": True, "seed": 3, "output": "numpy", "num_threads": 2}
    if request.param == "images":
        images = [(path, index) for index, path in enumerate(_write(root, _image, ".jpg"))]
        return lambda size, **more: ImageLoader(images, size, size=8, augment="train", **options, **more)
    if request.param == "arrays":
        files = _write(root, _arrays, ".npz")
        return lambda size, **more: ArrayLoader(files, size, **options, **more)
    if request.param == "sounds":
        sounds = MediaList([(path, None, 0) for path in _write(root, _sound, ".wav")])
        return lambda size, **more: AudioLoader(sounds, size, sample_rate=8000, seconds=0.05, **options, **more)
    paths = []
    for index in range(COUNT):
        paths.append(root / f"{index:02}.mp4")
        if index in BROKEN:
            paths[-1].write_bytes(b"no video")
        else:
            shutil.copyfile(clip("h264.mp4"), paths[-1])
    clips = MediaList([(path, None, index) for index, path in enumerate(paths)])
    return lambda size, **more: ClipLoader(clips, size, num_frames=2, fps=25, size=8, **options, **more)


def _plain(batch: Any) -> dict[str, Any]:
    return {name: it.tolist() if isinstance(it, np.ndarray) else it for name, it in batch.fields().items()}


@pytest.mark.parametrize("on_error", ["refill", "skip"])
def test_a_run_that_is_cut_at_any_step_is_the_run_that_is_not(make_loader: Any, on_error: str) -> None:
    whole = make_loader(3, on_error=on_error)
    steps, records, states = [], [whole.failures], [whole.state_dict()]
    for _ in range(2):
        for batch in whole:
            steps.append(_plain(batch))
            records.append(whole.failures)
            states.append(json.loads(json.dumps(whole.state_dict())))
    assert {failure.index for failure in whole.failures} >= {*BROKEN}
    if on_error == "refill":
        # The others leave whole batches out.
        assert sum(failure.times for failure in whole.failures) == sum(len(step["failures"]) for step in steps)
    for cut, (record, state) in enumerate(zip(records, states, strict=True)):
        resumed = make_loader(3, on_error=on_error)
        resumed.load_state_dict(state)
        assert resumed.failures == record
        assert resumed.state_dict() == state
        rest: list[Any] = []
        while len(rest) < len(steps) - cut:
            for batch in resumed:
                rest.append(_plain(batch))
                assert resumed.failures == records[cut + len(rest)]
                # The state after the last batch of an epoch is of this epoch or of the next one, as in the other run.
                assert resumed.state_dict() == states[cut + len(rest)]
        assert rest == steps[cut:]


def _skewed(on_error: Any, batch_size: int = 2, **options: Any) -> ImageLoader:
    images = [(b"no photo" if index in BROKEN else _image(index), index) for index in range(COUNT)]
    return ImageLoader(images, batch_size, size=8, output="numpy", num_threads=1, on_error=on_error, **options)


def test_each_rank_has_a_record_of_its_own() -> None:
    loaders = [_skewed("refill", 1, rank=rank, world_size=2) for rank in range(2)]
    for _ in zip(*loaders, strict=True):
        pass
    states = [loader.state_dict() for loader in loaders]
    assert states[0] != states[1]
    for rank, state in enumerate(states):
        resumed = _skewed("refill", 1, rank=rank, world_size=2)
        resumed.load_state_dict(state)
        assert resumed.failures == loaders[rank].failures
        # 0, 2, 4, ... are rank 0's, and what took a place may have failed, too.
        assert {failure.index for failure in resumed.failures} >= {it for it in BROKEN if it % 2 == rank}


@pytest.mark.parametrize("on_error", ["refill", "skip"])
def test_a_signal_handler_gets_the_record_that_belongs_to_the_place(on_error: str) -> None:
    loader = _skewed(on_error)
    received: list[Any] = []
    seen: list[tuple[int, dict[str, Any]]] = []

    def note(frame: Any, event: str, argument: Any) -> Any:
        # Between any two lines of a read, as a handler may come; the last two call nothing, so none comes between them.
        file = frame.f_code.co_filename
        returns = linecache.getline(file, frame.f_lineno).strip() == "return batch"
        if ("epoch_iterator" in file or "_loader/failures" in file) and not returns:
            seen.append((len(received), loader.state_dict()))
        return note

    sys.settrace(note)
    try:
        for batch in loader:
            received.append(batch)  # noqa: PERF402 - as each comes.
    finally:
        sys.settrace(None)
    of_steps = [len(batch.failures) for batch in received]
    # Of the last batch, all fail.
    assert sum(of_steps) == (4 if on_error == "refill" else 3)
    assert len(seen) > 50
    if on_error == "skip":
        of_steps.append(1)
    for count, state in seen:
        if state["epoch"] == 0:
            done = [0, 2, 4, 6, 8, 10, 11].index(state["position"])
            # A step of which all samples are left out is over before the loop gets the next batch.
            assert done == count or (on_error == "skip" and (count, done) == (5, 6))
            times = [times for *_, times in state["failures"]["last"]]
            assert sum(times) == state["failures"]["count"] == sum(of_steps[:done])


def test_the_record_has_a_bound_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    images = [(b"no photo", index) for index in range(1100)] + [(_image(0), 0)]

    def make() -> ImageLoader:
        return ImageLoader(images, 1101 // 3, size=8, output="numpy", num_threads=1, on_error="skip")

    whole, records, states = make(), [], []
    for _ in whole:
        records.append(whole.failures)
        states.append(json.loads(json.dumps(whole.state_dict())))
    assert [len(record) for record in records] == [1000]
    resumed = make()
    resumed.load_state_dict(states[0])
    assert resumed.failures == records[0]
    # Of the 1,101st failure nothing is logged anew: the 1,024th was the last, and the 2,048th will be the next.
    caplog.clear()
    list(itertools.islice(resumed, 1))
    list(itertools.islice(resumed, 1))
    logged = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in logged] == ["ImageLoader, failure 2048"]


def test_a_sample_that_fails_in_each_epoch_is_listed_once(caplog: pytest.LogCaptureFixture) -> None:
    broken = (2, 5, 7, *range(20, 30))
    images = [(b"no photo" if index in broken else _image(1), index) for index in range(40)]
    loader = ImageLoader(images, 8, size=8, output="numpy", on_error="skip", shuffle=True)
    for epoch in range(90):
        failed = [failure for batch in loader for failure in batch.failures]
        assert sorted(failure.index for failure in failed) == [*broken]
        assert {(failure.epoch, failure.times) for failure in failed} == {(epoch, 1)}
    assert sorted(failure.index for failure in loader.failures) == [*broken]
    assert {(failure.epoch, failure.times) for failure in loader.failures} == {(89, 90)}
    logged = [record.getMessage() for record in caplog.records]
    # In the order in which they failed first.
    first = ImageLoader(images, 8, size=8, output="numpy", on_error="skip", shuffle=True)
    list(first)
    assert [failure.index for failure in loader.failures] == [failure.index for failure in first.failures]
    numbers = [int(line.split(":")[0].split()[-1]) for line in logged]
    assert numbers == [*range(1, 11), 16, 32, 64, 128, 256, 512, 1024]
    assert len({line.split(":")[1].split(",")[0] for line in logged[:10]}) == 10
    resumed = ImageLoader(images, 8, size=8, output="numpy", on_error="skip", shuffle=True)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert resumed.failures == loader.failures


def test_a_sample_that_failed_early_and_often_hides_none_that_fails_first_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A photo that was cut off fails only where the missing part is needed."""
    images: list[Any] = [(_image(1), index) for index in range(4)]
    images[1] = (b"no photo", 1)
    loader = ImageLoader(images, 2, size=8, output="numpy", on_error="skip")
    for _ in range(30):
        list(loader)
    images[3] = (b"no photo", 3)
    caplog.clear()
    list(loader)
    assert [(failure.index, failure.times) for failure in loader.failures] == [(1, 31), (3, 1)]
    assert ["sample 3" in record.getMessage() for record in caplog.records][-1:] == [True]


def test_a_path_is_saved_as_text() -> None:
    records = [{"image": b"no photo", "label": 0, "path": Path("a", "b")}, {"image": _image(1), "label": 1, "path": 5}]
    loader = ImageLoader(records, 1, size=8, output="numpy", on_error="refill", num_threads=1)
    list(loader)
    assert [failure.path for failure in loader.failures] == [str(Path("a", "b"))]
    json.dumps(loader.state_dict())


def test_a_damaged_record_is_refused_and_changes_nothing() -> None:
    loader = _skewed("refill")
    next(iter(loader))
    before = loader.state_dict(), loader.failures
    damages: list[Any] = [None, [], {"count": 1}, {**before[0]["failures"], "count": 1000}]
    for damage in damages:
        with pytest.raises(ValueError, match="is damaged: its 'checksum' is"):
            loader.load_state_dict({**before[0], "failures": damage})
    assert (loader.state_dict(), loader.failures) == before

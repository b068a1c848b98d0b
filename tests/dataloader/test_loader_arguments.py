"""What `spdl why` recommends of each ready-made loader is what its constructor accepts, whatever limits it."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.observe.programs import own_page
from tests.observe.verdict.test_verdict import BESIDE, CROWDED, IN_TURNS, PIPELINE, STAGE, STUCK

from spdl.dataloader import ArrayLoader, DataLoader, ImageLoader
from spdl.io import save_npy
from spdl.observe import SourceWindow, find_pipelines
from spdl.observe import verdict as decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spdl.observe import PageHead, Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no pages")

PHOTO = b"P6 4 3 255 " + bytes(4 * 3 * 3)
BUSY = (SourceWindow("src", busy=0.95, rate=100.0, oldest=0.0),)

# What is seen of the stage that limits the pipeline, and of the pipeline.
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "I/O": ({}, {}),
    "CPU": (BESIDE, {"cores_used": 1.8}),
    "cores": ({**BESIDE, "concurrency": 8}, {"cores_used": 8.0}),
    "GIL": (IN_TURNS, {"cores_used": 1.0}),
    "oversubscription": ({"runs": 0.1, "waits_for_thread": 0.9, "waits": 0.0}, CROWDED),
    "held back by order": ({"occupancy": 0.3, "held": 0.7}, {}),
    "serial source": ({"occupancy": 0.1}, {"sources": BUSY}),
    "hang": ({"rate": 0.0, "oldest": 60.0}, STUCK),
    "none": ({"occupancy": 0.5}, {}),
}


class Photos:
    """A source of photos, as a loader takes them."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        return PHOTO, index


def square(number: int) -> int:
    return number * number


def wait(seconds: float, number: int) -> int:
    time.sleep(seconds)
    return number


async def awaited(number: int) -> int:
    return number


def as_it_is(batch: Any) -> Any:
    return batch


class Numbers:
    """A map-style dataset, which processes may unpickle."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        return index


def images(_: Path, **options: Any) -> Any:
    source: Any = Photos()
    return ImageLoader(source, 4, size=8, output="numpy", **options)


def arrays(folder: Path, **options: Any) -> Any:
    path = folder / "array.npy"
    if not path.exists():
        np = pytest.importorskip("numpy")
        save_npy(path, np.zeros(3, np.float32))
    return ArrayLoader([(path, 1)] * 64, 4, output="numpy", **options)


def numbers(_: Path, **options: Any) -> Any:
    functions: dict[str, Any] = {"preprocessor": square, "aggregator": as_it_is, "transfer_fn": as_it_is}
    return DataLoader(range(64), batch_size=4, **functions, **options)


def asynchronous(_: Path, **options: Any) -> Any:
    return DataLoader(range(64), preprocessor=awaited, **options)


def dropped_in(_: Path, **options: Any) -> Any:
    pytest.importorskip("torch")
    from spdl.dataloader import PyTorchDataLoader  # noqa: PLC0415 - it needs PyTorch.

    return PyTorchDataLoader(Numbers(), batch_size=4, **options)


LOADERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ImageLoader of one thread": (images, {"num_threads": 1}),
    "ImageLoader of 16 threads": (images, {"num_threads": 16}),
    "ImageLoader": (images, {}),
    "ArrayLoader": (arrays, {"num_threads": 2}),
    "DataLoader": (numbers, {"num_threads": 2, "output_order": "input"}),
    "DataLoader that tunes itself": (numbers, {"num_threads": "auto"}),
    "DataLoader of coroutines": (asynchronous, {"num_threads": 2}),
    "PyTorchDataLoader": (dropped_in, {"num_workers": 2}),
}


def seen(loader: Any) -> tuple[PageHead, Iterator[Any]]:
    """Return what other processes are told of a loader that has begun, and its iterator."""
    before = {page.path for page in find_pipelines(os.getpid())}
    batches = iter(loader)
    next(batches)
    pages = [page for page in find_pipelines(os.getpid()) if page.path not in before]
    while not pages:
        pages = [page for page in find_pipelines(os.getpid()) if page.path not in before]
    return pages[0].head, batches


def verdicts(head: PageHead, limit: str) -> list[Verdict]:
    """Return what is said if each of the declared stages is the limit in turn."""
    assert head.loader is not None
    declared = [about for about in head.stages if about.declared]
    of_stage, of_pipeline = LIMITS[limit]
    found = []
    for limiting in declared:
        stages = []
        for about, arguments in zip(declared, head.loader.stages, strict=True):
            busy = of_stage if about is limiting else {"occupancy": 0.05, "rate": of_stage.get("rate", 100.0)}
            made = dataclasses.replace(
                STAGE,
                name=about.name,
                op=about.op,
                served_by=about.served_by,
                adjustable=about.adjustable,
                concurrency=max(1, arguments.value),
                arguments=arguments,
            )
            stages.append(dataclasses.replace(made, **busy))
        made_up = {"stages": tuple(stages), "loader": head.loader, "cores": 8.0, **of_pipeline}
        found.append(decide(dataclasses.replace(PIPELINE, **made_up)))
    return found


def recommended(remedy: str) -> dict[str, Any]:
    """Return the arguments that a text recommends, as a reader copies them into the call."""
    written = re.findall(r"`(\w+)=([^`]+)`", remedy)
    return {name: ast.literal_eval(value) for name, value in written if value not in ("...", "None")}


# torch warns of processes beyond the cores; these are made up.
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("named", LOADERS)
def test_a_remedy_is_accepted_as_it_is_written(named: str, tmp_path: Path) -> None:
    make, options = LOADERS[named]
    head, batches = seen(make(tmp_path, **options))
    del batches
    tried: list[dict[str, Any]] = []
    for verdict in (each for limit in LIMITS for each in verdicts(head, limit)):
        given = recommended(verdict.remedy)
        given.pop("OMP_NUM_THREADS", None)
        settings = {name: value for name, value in verdict.settings.items() if name != "threads_per_op"}
        assert {"num_threads", "num_workers"} >= settings.keys(), verdict
        for remedied in (given, settings):
            if remedied in tried:
                continue
            tried.append(remedied)
            loader = make(tmp_path, **{**options, **remedied})
            assert type(loader).__name__ in named
            # Processes for each of these would take long.
            if "workers" not in given:
                assert next(iter(loader)) is not None
    assert len(tried) > 1


def test_the_page_says_what_may_be_changed_of_each_stage(tmp_path: Path) -> None:
    head, batches = seen(numbers(tmp_path, num_threads=3))
    del batches
    assert head.loader is not None
    assert head.loader.loader == "DataLoader"
    told = [
        (stage.name, about.several, about.value) for stage, about in zip(head.stages, head.loader.stages, strict=True)
    ]
    assert told == [
        ("square", "num_threads", 3),
        ("aggregate(op=collate(4), drop_last=False)", "", 0),
        ("as_it_is", "num_threads", 3),
        ("as_it_is", "", 0),
    ]


@pytest.mark.parametrize(("threads", "at_once"), [(1, 1), (3, 3), (4, 4), (16, 4)])
def test_four_batches_are_made_at_once(threads: int, at_once: int, tmp_path: Path) -> None:
    loader = images(tmp_path, num_threads=threads)
    head, batches = seen(loader)
    assert head.loader is not None
    (load,) = head.loader.stages
    assert (load.value, load.most) == (threads, 4)
    assert loader.statistics().stages[1].concurrency == at_once
    del batches


def test_its_statistics_say_threads_and_not_slots() -> None:
    said = ""
    # On a busy machine starting takes long, beside which the work has to take longer.
    for seconds in (0.02, 0.2, 2.0):
        loader: DataLoader[int, int] = DataLoader(range(10), preprocessor=partial(wait, seconds), num_threads=1)
        list(loader)
        said = loader.statistics().bottleneck
        if "'wait'" in said:
            break
    assert "'wait': Its only thread is in use" in said
    assert "Give DataLoader `num_threads=" in said


def test_a_pipeline_of_ones_own_tells_of_no_loader() -> None:
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415

    pipeline = PipelineBuilder().add_source(range(100)).pipe(square).add_sink(2).build(num_threads=1)
    with pipeline.auto_stop():
        pipeline.get_item()
        assert own_page(pipeline).head.loader is None

"""`spdl why` on scripts that use a ready-made loader, from outside: its remedies are arguments of that loader."""

from __future__ import annotations

import ast
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import call
from tests.observe.asking import ask_until
from tests.observe.programs import observed, running, running_script

if TYPE_CHECKING:
    import subprocess

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.timeout(240)]

PLANTED = Path(__file__).parents[1] / "planted"

HEAD = """
import time
from spdl.dataloader import DataLoader, ImageLoader

PHOTO = b"P6 4 3 255 " + bytes(4 * 3 * 3)


class Photos:
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return PHOTO, 0


def slow(item):
    time.sleep(0.04)
    return item


"""

# Of each loader: how it is made, the arguments before, the stage that limits it, and the gain that they allow at most.
LOADERS: dict[str, tuple[str, dict[str, Any], str, float]] = {
    "images whose transform waits": (
        "ImageLoader(Photos(0), 2, size=8, output='numpy', transform=slow, **options)",
        {"num_threads": 1},
        "load",
        4.0,
    ),
    "images from a slow store": (
        "ImageLoader(Photos(0.02), 2, size=8, output='numpy', **options)",
        {"num_threads": 2},
        "load",
        2.0,
    ),
    "a function that waits": (
        "DataLoader(range(10**9), preprocessor=slow, batch_size=2, **options)",
        {"num_threads": 2},
        "slow",
        32.5,
    ),
    "a dataset that waits": (
        "PyTorchDataLoader(Photos(0.02), batch_size=2, collate_fn=len, workers='thread', **options)",
        {"num_workers": 2},
        "load",
        32.0,
    ),
}


def program(loader: str, options: dict[str, Any], step: float = 0.005) -> str:
    """Return a script whose training step takes some seconds."""
    made = loader.replace("**options", f"**{options!r}")
    needs_torch = "from spdl.dataloader import PyTorchDataLoader\n" if "PyTorch" in loader else ""
    return f"{HEAD}{needs_torch}for _ in {made}:\n    time.sleep({step})\n"


def why(process: subprocess.Popen[bytes], *options: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call("why", str(process.pid), "--json", *options).stdout)
    return answer


def recommended(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a remedy names, as a reader copies them into the call."""
    return {name: ast.literal_eval(value) for name, value in re.findall(r"`(\w+)=([^`]+)`", verdict["remedy"])}


def named(process: subprocess.Popen[bytes], kind: str, stage: str, *options: str) -> dict[str, Any]:
    """Return the verdict as soon as it is of this kind, on this stage."""
    return ask_until(lambda: why(process, *options), lambda it: (it["kind"], it["stage"]) == (kind, stage))


def rate(process: subprocess.Popen[bytes]) -> float:
    """Return how many batches a script takes per second."""
    page = observed(process, lambda seen: seen.delivered >= 20)
    before = page.observe()
    time.sleep(1.5)
    after = page.observe()
    return (after.delivered - before.delivered) / (after.now - before.now)


@pytest.mark.parametrize("loader_of", LOADERS)
def test_the_remedy_names_arguments_of_the_loader(loader_of: str) -> None:
    loader, options, stage, most = LOADERS[loader_of]
    if "PyTorch" in loader:
        pytest.importorskip("torch")
    with running(program(loader, options)) as process:
        observed(process, lambda seen: seen.delivered >= 20)
        verdict = named(process, "I/O", stage)
    assert (verdict["kind"], verdict["stage"]) == ("I/O", stage), verdict["sentence"]
    remedy = recommended(verdict)
    assert remedy == verdict["settings"]
    assert remedy.keys() == options.keys()
    assert 1 < verdict["predicted_gain"] <= most
    with running(program(loader, {**options, **remedy})) as process:
        observed(process, lambda seen: seen.delivered >= 8)


# It compares real rates.
@pytest.mark.long
@pytest.mark.parametrize("loader_of", LOADERS)
def test_the_remedy_gains_what_was_foretold(loader_of: str) -> None:
    loader, options, stage, _ = LOADERS[loader_of]
    if "PyTorch" in loader:
        pytest.importorskip("torch")
    with running(program(loader, options)) as process:
        observed(process, lambda seen: seen.delivered >= 20)
        verdict = named(process, "I/O", stage, "--seconds", "1.5")
        before = rate(process)
    with running(program(loader, {**options, **recommended(verdict)})) as process:
        gain = rate(process) / before
    assert verdict["predicted_gain"] == pytest.approx(gain, rel=0.25), verdict["sentence"]


def test_no_gain_is_foretold_of_more_than_four_batches_at_once() -> None:
    loader, _, stage, _ = LOADERS["images from a slow store"]
    options = {"num_threads": 8}
    with running(program(loader, options)) as process:
        observed(process, lambda seen: seen.delivered >= 20)
        verdict = named(process, "I/O", stage)
    assert (verdict["kind"], verdict["stage"]) == ("I/O", stage), verdict["sentence"]
    assert verdict["predicted_gain"] is None
    assert "4 batches at once at most" in verdict["remedy"]
    assert "__getitems__" in verdict["remedy"]
    with running(program(loader, recommended(verdict))) as process:
        observed(process, lambda seen: seen.delivered >= 8)


def test_workers_that_wait_for_the_loop_are_no_slow_source() -> None:
    pytest.importorskip("torch")
    # Each 40th item takes long, and batches come in their order.
    uneven = """
from spdl.dataloader import PyTorchDataLoader

class Uneven:
    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        time.sleep(0 if index % 40 else 0.4)
        return index

for _ in PyTorchDataLoader(Uneven(), batch_size=1, num_workers=4, workers="thread"):
    pass
"""
    with running(HEAD + uneven) as process:
        observed(process, lambda seen: seen.delivered >= 80)
        verdict = named(process, "none", "", "--seconds", "2")
    assert (verdict["kind"], verdict["stage"]) == ("none", ""), verdict["sentence"]
    assert "`prefetch_factor`" in verdict["remedy"]


class TestKilled:
    def killed(self, text: str, ready: Any) -> tuple[dict[str, Any], str]:
        """Return what is said of a program that was killed as soon as something held of it, in JSON and in words."""
        with running(text) as process:
            observed(process, ready)
            process.kill()
            process.wait()
            return why(process), call("why", str(process.pid)).stdout

    def test_what_was_seen_last_is_told_and_nobody_is_asked_to_watch(self) -> None:
        text = program("DataLoader(range(100), preprocessor=lambda _: time.sleep(1000), **options)", {"num_threads": 2})
        verdict, said = self.killed(text, lambda seen: sum(thread.part == 1 for thread in seen.threads) == 2)
        assert verdict["state"] == "killed"
        assert said.startswith("(It was killed.) ")
        for sentence in (verdict["sentence"], said):
            assert "The process was killed" in sentence
            assert "the loop had taken 0 items, and '<lambda>' (2) was at work." in sentence
            assert "watch it while it runs" in sentence
            assert "Watch for longer" not in sentence

    def test_coroutines_at_work_are_counted_by_their_slots(self) -> None:
        text = """
import asyncio
from spdl.dataloader import DataLoader

async def fetch(number):
    await asyncio.sleep(0 if number < 20 else 1000)
    return number

for _ in DataLoader(range(100), preprocessor=fetch, num_threads=3):
    pass
"""
        verdict, _ = self.killed(text, lambda seen: seen.delivered == 20 and seen.stages[0].running == 3)
        assert "had taken 20 items, and 'fetch' (3) was at work." in verdict["sentence"]

    def test_a_wait_that_had_not_ended_counts(self) -> None:
        text = """
import time
from spdl.dataloader import DataLoader

def work(number):
    time.sleep(0.01 if number < 20 else 1000)
    return number

for _ in DataLoader(range(100), preprocessor=work, num_threads=1):
    pass
"""
        with running(text) as process:
            # The counters were written again long after the loop had taken what there was.
            observed(process, lambda seen: seen.delivered == 20 and seen.now - seen.consumer_waiting_since > 0.7)
            process.kill()
            process.wait()
            (seen,) = json.loads(call("top", str(process.pid), "--once", "--json").stdout)
        assert seen["consumer_waits"] > 0.6
        (stage,) = (each for each in seen["stages"] if each["name"] == "work")
        assert stage["occupancy"] > 0.6

    def test_beside_a_verdict_on_the_time_since_its_start(self) -> None:
        with running_script(PLANTED / "io.py") as process:
            observed(process, lambda seen: seen.delivered >= 60)
            process.kill()
            process.wait()
            verdict = why(process)
        assert (verdict["kind"], verdict["stage"]) == ("unclear", "fetch"), verdict["sentence"]
        taken = re.search(r"the loop had taken (\d+) items, and .*'fetch' \(\d+\)", verdict["evidence"])
        assert taken is not None, verdict["evidence"]
        assert int(taken[1]) >= 60

"""`spdl advise` on jobs that know nothing of it: the right verdict, and the results that they have without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from tests.cli.running import run
from tests.observe.asking import ask_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("torch", reason="the jobs need PyTorch")
# Two runs of a job in turn, each of which imports PyTorch, on machines that do other things as well.
pytestmark = pytest.mark.timeout(300)

JOBS = Path(__file__).parent / "jobs"
# Long enough to see that something was tried, but not what it gains.
TRIAL = "0.2"


@dataclass(frozen=True)
class Advised:
    """A job that ran twice.

    Attributes:
        alone: What it printed when it ran by itself.
        printed: What it printed under `spdl advise`.
        page: The page.
        figures: The figures.
    """

    alone: str
    printed: str
    page: str
    figures: dict[str, Any]


# Runs jobs one after the other in an interpreter that imports PyTorch once, and tells what each has printed.
_ALONE = """
import contextlib, io, json, runpy, sys
printed = {}
for path in sys.argv[1:]:
    sys.argv = [path]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(path, run_name="__main__")
    printed[path] = output.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="session")
def alone() -> dict[str, str]:
    """Return what each job prints by itself."""
    # One starts a process that imports its file as the main module.
    spawns = JOBS / "odd_loaders.py"
    paths = [str(path) for path in JOBS.glob("*.py") if path.name not in ("odd_loaders.py", "ranks.py")]
    done = subprocess.run([sys.executable, "-c", _ALONE, *paths], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    found[str(spawns)] = subprocess.run([sys.executable, spawns], check=True, capture_output=True, text=True).stdout
    return {Path(path).stem: printed for path, printed in found.items()}


@pytest.fixture(scope="session")
def advised(tmp_path_factory: pytest.TempPathFactory, alone: dict[str, str]) -> Callable[[str], Advised]:
    known: dict[str, Advised] = {}

    def run_advised(name: str) -> Advised:
        job = [sys.executable, str(JOBS / f"{name}.py")]
        file = tmp_path_factory.mktemp(name) / "figures.json"
        done = run("advise", "--json", file, "--trial-seconds", TRIAL, "--", *job, timeout=200)
        assert done.returncode == 0, done.stderr
        assert done.stdout == alone[name]
        return Advised(alone[name], done.stdout, done.stderr, json.loads(file.read_text()))

    def run_until_right(name: str) -> Advised:
        if name not in known:
            # Other programs of the machine may take the time that tells what the job waits for.
            kind = dict(CASES).get(name)
            known[name] = ask_until(lambda: run_advised(name), lambda it: kind in (None, it.figures["verdict"]))
        return known[name]

    return run_until_right


CASES = [("starved_by_decoding", "CPU"), ("starved_by_pickling", "pickling"), ("not_starved", "slow consumer")]


@pytest.mark.long
@pytest.mark.parametrize(("job", "kind"), CASES)
def test_the_verdict(job: str, kind: str, advised: Callable[[str], Advised]) -> None:
    figures = advised(job).figures
    assert figures["verdict"] == kind, advised(job).page


@pytest.mark.long
@pytest.mark.parametrize("job", [*(job for job, _ in CASES), "odd_loaders", "starved_by_python", "starved_by_lock"])
def test_the_job_has_the_results_that_it_has_alone(job: str, advised: Callable[[str], Advised]) -> None:
    assert advised(job).printed == advised(job).alone


@pytest.mark.long
def test_loaders_of_every_kind_are_measured(advised: Callable[[str], Advised]) -> None:
    loaders = advised("odd_loaders").figures["loaders"]
    lines = (JOBS / "odd_loaders.py").read_text().splitlines()
    found = {re.findall(r'read\("([a-z ]*)|$', lines[it["description"]["line"] - 1])[0]: it for it in loaders}
    batches = {name: it["batches"] for name, it in found.items()}
    assert batches == {
        "within the loop": 35,
        "grouped": 18,
        "stream": 14,
        "kept": 20,
        "no batches": 40,
        "drawing": 150,
        "generator": 140,
        "not forked": 5,
        "failing": batches["failing"],
        "": batches[""],
    }
    assert all(it["ahead_steps"] == 0 for name, it in found.items() if name in ("within the loop", "drawing"))
    assert {name for name, it in found.items() if it["description"]["iterable"]} == {"stream"}


@pytest.mark.long
def test_loaders_that_are_made_anew_are_told_from_those_that_are_read_again(
    advised: Callable[[str], Advised],
) -> None:
    loaders = advised("odd_loaders").figures["loaders"]
    assert all(it["made"] == 1 for it in loaders)
    assert sorted(it["epochs"] for it in loaders) == [1] * (len(loaders) - 2) + [2, 2]
    (anew,) = advised("starved_by_python").figures["loaders"]
    assert (anew["made"], anew["epochs"], anew["processes"]) == (2, 2, 1)


@pytest.mark.long
def test_batches_are_collected_for_a_few_steps(advised: Callable[[str], Advised]) -> None:
    (loader,) = advised("starved_by_decoding").figures["loaders"]
    assert loader["ahead_steps"] >= 7
    assert loader["verdict"]["headspace_measured"]
    assert loader["verdict"]["headspace"] > 1.2
    assert "whose batches were already there" in " ".join(advised("starved_by_decoding").page.split())


@pytest.mark.long
def test_what_the_workers_do(advised: Callable[[str], Advised]) -> None:
    (loader,) = advised("starved_by_decoding").figures["loaders"]
    parts = loader["verdict"]["costs"]["parts"]
    assert parts["decoding"] > 0.1 * sum(parts.values())
    assert loader["batches"] == 2 * 60
    (loader,) = advised("starved_by_pickling").figures["loaders"]
    assert loader["sent_bytes"] > 10_000 * loader["sent"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("job", "changes"),
    [
        (
            "starved_by_decoding",
            [
                [
                    "from torch.utils.data import DataLoader",
                    "from spdl.dataloader import PyTorchDataLoader as DataLoader",
                ]
            ],
        ),
        (
            "starved_by_pickling",
            [
                ["import hashlib", "from spdl.dataloader import PyTorchDataLoader", "import hashlib"],
                ["    loader = torch.utils.data.DataLoader(", "    loader = PyTorchDataLoader("],
            ],
        ),
    ],
)
def test_the_lines_to_change(job: str, changes: list[list[str]], advised: Callable[[str], Advised]) -> None:
    (loader,) = advised(job).figures["loaders"]
    assert [[it["old"], *it["new"]] for it in loader["changes"]] == changes
    lines = (JOBS / f"{job}.py").read_text().splitlines()
    assert [lines[it["line"] - 1] for it in loader["changes"]] == [old for old, *_ in changes]
    assert loader["description"]["file"] == str(JOBS / f"{job}.py")
    # What threads gain depends on what else has the cores.
    best = loader["verdict"]["best"]
    for _, *new in changes:
        assert (f"  + {new[0]}" in advised(job).page) is (best is not None and best["what"] != "more")


def ways(advised: Advised) -> dict[str, dict[str, Any]]:
    """Return what was tried of the first loader, by its name and the number of workers."""
    verdict = advised.figures["loaders"][0]["verdict"]
    return {f"{way['what']} {way['workers']}": way for way in verdict["tried"]}


@pytest.mark.long
def test_other_ways_are_tried_where_the_loop_waits(advised: Callable[[str], Advised]) -> None:
    cores = len(os.sched_getaffinity(0))
    expected = {
        # It draws random numbers that all threads of a process share.
        "starved_by_decoding": {
            *("now 2", "process 2", "unproven thread 2", "unproven thread 8"),
            *([f"more {cores}"] if cores > 2 else []),
        },
        "starved_by_python": {
            *("now 0", f"thread {cores}", f"more {cores}"),
            *([f"thread {min(4 * cores, 32)}"] if cores < 32 else []),
        },
    }
    for job, names in expected.items():
        assert ways(advised(job)).keys() == names
        assert all(it["per_second"] > 0 and not it["error"] for it in ways(advised(job)).values()), advised(job).page
    assert "tried with the job's items" in " ".join(advised("starved_by_decoding").page.split())


# It compares real rates.
@pytest.mark.long
@pytest.mark.long
def test_what_threads_would_wait_for_is_seen_when_they_are_tried(advised: Callable[[str], Advised]) -> None:
    # Four processes have a connection each, so what four threads do is a quarter of it.
    threads = ways(advised("starved_by_lock"))["unproven thread 4"]
    assert threads["most_gain"] < 0.9, advised("starved_by_lock").page
    assert "threads are not known to be safe" not in advised("starved_by_lock").page


# A dataset that does something only where it is tried.
IN_COPY = """
import os, signal, time
import torch
from torch.utils.data import DataLoader

JOB = os.getpid()

class Data:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        if os.getpid() != JOB:
            {does}
        time.sleep(0.002)
        return torch.zeros(2)

for batch in DataLoader(Data(), batch_size=4):
    time.sleep(0.001)
print("done", os.getpid() == JOB)
"""


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "the copy of the process that tries it has died"),
        ("raise KeyError('a key')", "as it is: KeyError: 'a key'"),
        ("print('lost'); os.write(1, b'lost'); os.write(2, b'lost')", "as it is: "),
    ],
)
def test_what_happens_in_a_trial_does_not_touch_the_job(does: str, says: str) -> None:
    done = run("advise", "--trial-seconds", "0.1", "--", sys.executable, "-c", IN_COPY.format(does=does), timeout=200)
    assert (done.returncode, done.stdout) == (0, "done True\n")
    assert says in " ".join(done.stderr.split())
    assert "lost" not in done.stderr


PHOTOS = """
import sys
import numpy as np, torch
from PIL import Image
from torch.utils.data import DataLoader

class Photos:
    def __len__(self):
        return 48

    def __getitem__(self, index):
        with open(f"{{sys.argv[1]}}/{{index % 3}}.jpg", "rb") as file, Image.open(file) as image:
            pixels = np.array(image.convert("RGB").resize((24, 16)))
        {also}
        return {{"index": index, "image": torch.from_numpy(pixels).permute(2, 0, 1) / 255}}

for batch in DataLoader(Photos(), batch_size=4):
    pass
"""


@pytest.mark.parametrize(
    ("also", "tried"),
    [("", ["3 of the job's photos as 24x16, float32"]), ("Image.open(f'{sys.argv[1]}/0.jpg').close()", [])],
    ids=["one each", "two each"],
)
def test_photos_are_loaded_by_image_loader_where_they_are_all_that_is_opened(
    also: str, tried: list[str], tmp_path: Path
) -> None:
    for number in range(3):
        Image.new("RGB", (300, 200), (90 * number, 100, 50)).save(tmp_path / f"{number}.jpg")
    program = (sys.executable, "-c", PHOTOS.format(also=also), str(tmp_path))
    done = run("advise", "--json", "-", "--trial-seconds", "0.1", "--", *program, timeout=200)
    (loader,) = json.loads(done.stdout)["loaders"]
    images = [way for way in loader["verdict"]["tried"] if way["what"] == "images"]
    assert [way["reason"] for way in images] == tried
    assert all(way["gain"] > 0 for way in images), done.stderr


def test_nothing_is_tried_if_it_is_not_to_be() -> None:
    job = str(JOBS / "starved_by_lock.py")
    done = run("advise", "--json", "-", "--trial-seconds", "0", "--", sys.executable, job, timeout=200)
    assert not json.loads(done.stdout)["loaders"][0]["trial"]
    assert "Nothing was tried" in done.stderr


def test_ranks(tmp_path: Path) -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    file = tmp_path / "figures.json"
    done = run("advise", "--json", file, "--", sys.executable, *launch, JOBS / "ranks.py", timeout=200)
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    assert sorted(rank["name"] for rank in figures["ranks"]) == ["0", "1"]
    (loader,) = figures["loaders"]
    # What was measured in the last second is lost.
    assert 20 < loader["steps"] <= 2 * 75
    assert loader["epochs"] == 2
    assert "2 processes read loaders; rank " in done.stderr


@pytest.mark.long
def test_a_job_that_is_not_starved_is_told_to_change_nothing(advised: Callable[[str], Advised]) -> None:
    page = " ".join(advised("not_starved").page.split())
    assert "the loader is not the limit" in page
    assert "To switch" not in page

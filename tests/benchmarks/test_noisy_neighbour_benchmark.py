"""The benchmark beside a training loop judges each loader at its best, and leaves none out silently."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.importing import importable

ROOT = Path(__file__).parents[2]
OURS, THEIRS = "spdl-turbo, load_image_batch", "FFCV"


@pytest.fixture(scope="module")
def noisy() -> Iterator[ModuleType]:
    pytest.importorskip("matplotlib")
    with importable("benchmarks"):
        yield importlib.import_module("noisy_neighbour")


def figures(times: float, rate: float = 320.0) -> dict[str, Any]:
    return {"p50": times, "p95": times, "p99": times, "images_per_second": rate, "keeps_up": rate == 320}


def test_ours_may_be_a_tenth_above_the_lowest(noisy: ModuleType) -> None:
    found = {"no loader": figures(1), OURS: figures(10.9), THEIRS: figures(10)}
    assert [claim["met"] for claim in noisy.judge(found)] == [True] * 3
    assert [claim["met"] for claim in noisy.judge(found | {OURS: figures(11.1)})] == [False] * 3


def test_who_does_not_keep_up_is_not_the_lowest(noisy: ModuleType) -> None:
    late = {OURS: figures(20), THEIRS: figures(10, rate=300)}
    assert {claim["beside"] for claim in noisy.judge(late)} == {OURS}


def test_ours_lose_where_they_do_not_keep_up(noisy: ModuleType) -> None:
    late = {OURS: figures(5, rate=300), THEIRS: figures(10)}
    assert [claim["met"] for claim in noisy.judge(late)] == [False] * 3


def test_the_best_number_of_workers_disturbs_least_of_those_that_keep_up(noisy: ModuleType) -> None:
    rows = [
        {"contender": name, "workers": workers, "turns": 3} | figures(times, rate)
        for name, each in {
            OURS: [(9, 300), (5, 320), (6, 320)],
            THEIRS: [(5, 200), (90, 310)],
            "no loader": [(4, 320)],
        }.items()
        for workers, (times, rate) in enumerate(each, start=1)
    ]
    best = {name: row["workers"] for name, row in noisy.at_their_best(rows).items()}
    assert best == {OURS: 2, THEIRS: 2, "no loader": 1}


# A loader that keeps up with the loop for a number of turns, and then no longer.
TRAINING = """
import json, sys
turns = 0
for line in sys.stdin:
    job = json.loads(line)
    if job["work"] == "beside.train":
        turns += 1
        rate = 320 if turns <= {turns} else 200
        answer = {{"p50": 1, "p95": 1, "p99": turns, "images_per_second": rate}}
    print(json.dumps(answer if job["work"] == "beside.train" else {{}}), flush=True)
"""


@pytest.fixture
def take_rounds(noisy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that takes rounds in which theirs are late after a number of turns, and ours never."""

    def take(number: int, *, in_time: int, tries: int, workers: Sequence[int]) -> Any:
        commands = {}
        for name, turns in ((THEIRS, in_time), (OURS, 100)):
            program = tmp_path / f"{turns}.py"
            program.write_text(TRAINING.format(turns=turns))
            commands[name] = (sys.executable, str(program))
        monkeypatch.setattr(noisy, "OWN", commands[OURS])
        rounds = noisy.Rounds(commands, "", workers, tries=tries)
        all_turns = [("no loader", 0)] + [(name, it) for name in (THEIRS, OURS) for it in workers]
        with rounds.prepared():
            for name, it in number * all_turns:
                rounds.take(name, it, 10, 10)
        return rounds

    return take


def test_workers_that_were_late_once_are_not_tried_again(take_rounds: Callable[..., Any]) -> None:
    rounds = take_rounds(5, in_time=4, tries=5, workers=[1, 2])
    rows = {(row["contender"], row["workers"]): row for row in rounds.rows()}
    assert {key: (row["turns"], row["keeps_up"]) for key, row in rows.items()} == {
        ("no loader", 0): (5, True),
        (THEIRS, 1): (3, False),
        (THEIRS, 2): (5, False),
        (OURS, 1): (5, True),
        (OURS, 2): (5, True),
    }
    assert rows[OURS, 1]["p99"] == 5
    assert rounds.absent == {}


def test_only_the_best_number_of_workers_goes_on_after_the_tries(
    noisy: ModuleType, take_rounds: Callable[..., Any]
) -> None:
    rounds = take_rounds(4, in_time=2, tries=1, workers=[2, 1])
    rows = {(row["contender"], row["workers"]): row for row in rounds.rows()}
    assert {key: (row["turns"], row["keeps_up"]) for key, row in rows.items()} == {
        ("no loader", 0): (4, True),
        # The first number of each disturbs least. Theirs gets late later, and no other number takes its place.
        (THEIRS, 2): (4, False),
        (THEIRS, 1): (1, True),
        (OURS, 2): (4, True),
        (OURS, 1): (1, True),
    }
    best = noisy.at_their_best(rounds.rows())
    assert {name: row["workers"] for name, row in best.items()} == {"no loader": 0, THEIRS: 2, OURS: 2}


@pytest.fixture
def beside_none(noisy: ModuleType) -> dict[str, Any]:
    """Return what a training loop measures without a loader beside it."""
    job_server = importlib.import_module("_job_server")
    started = job_server.JobServer((sys.executable,), ROOT / "benchmarks" / "_loaders_work")
    work: dict[str, Any] = {"work": "beside.train", "loader": None, "keywords": {}, "folder": "", "workers": 0}
    found: dict[str, Any] = started.run(work | {"steps": 20, "step_turns": 100})
    started.close()
    return found


def test_steps_beside_no_loader_are_told_as_multiples_of_themselves(beside_none: dict[str, Any]) -> None:
    assert beside_none["images_per_second"] > 0
    assert 0 < beside_none["p50_alone_ms"] <= beside_none["p95_alone_ms"] <= beside_none["p99_alone_ms"]
    # Each is a multiple of the same percentile.
    assert all(beside_none[name] > 0 for name in ("p50", "p95", "p99"))


# It compares real rates.
@pytest.mark.long
def test_steps_beside_no_loader_are_as_fast_as_they_are_to_be(beside_none: dict[str, Any]) -> None:
    assert beside_none["images_per_second"] == pytest.approx(320, rel=0.5)
    assert beside_none["p99_alone_ms"] < 1000
    assert all(0.01 < beside_none[name] < 100 for name in ("p50", "p95", "p99"))


def test_the_table_beside_a_training_loop_does_without_who_failed(noisy: ModuleType) -> None:
    row = {"contender": OURS, "workers": 2, "turns": 1, "p50_alone_ms": 4.04, "cpu_seconds_per_second": 0.5}
    beside = noisy.at_their_best([row | figures(1.5)])
    result = {
        "rounds": 3, "tries": 1, "workers": [1, 2], "absent": {"no loader": "it was ended"}, "contenders": beside,
        "rows": list(beside.values()), "claims": noisy.judge(beside),
    }  # fmt: skip
    said = importlib.import_module("_report_tables").noisy_neighbour(result)
    assert "\nNot measured: no loader (it was ended).\n" in said
    assert "half of these take up to 4.0 ms" in said
    assert "After 1 of 3 turns the best number alone went on." in said
    assert f"| {OURS} | 2 | 1.50 | 1.50 | 1.50 | 320 | 0.50 |  | 1.50 |" in said

"""The benchmarks of loaders judge by the figures alone, and leave nobody out silently."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Iterator[None]:
    """Let their modules be imported, some of which are called as examples are, and forget them afterwards."""
    pytest.importorskip("matplotlib")
    folder = ROOT / "benchmarks"
    names = {path.stem for path in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
    for name in names & sys.modules.keys():
        del sys.modules[name]
    sys.modules.update(others)


@pytest.fixture(scope="module")
def loaders(benchmarks: None) -> ModuleType:
    return importlib.import_module("loaders")


@pytest.fixture(scope="module")
def turns(benchmarks: None) -> ModuleType:
    return importlib.import_module("_loader_turns")


@pytest.fixture(scope="module")
def noisy(benchmarks: None) -> ModuleType:
    return importlib.import_module("noisy_neighbour")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """40 photos of noise, smooth enough that a filter matters little."""
    random = np.random.default_rng(0)
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(40):
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((300, 260), Image.Resampling.BICUBIC).save(photos / f"{number:02}.jpg")
    return photos


# A contender's program: what it is asked for comes line by line, what it does is said by the environment's command.
PROGRAM = """
import json, sys
import numpy as np
from pathlib import Path
from PIL import Image

how = sys.argv[1]
turns = 0

def take_turn(arguments):
    global turns
    turns += 1
    if how == "broken" or turns > 1 and how == "broken later":
        sys.exit("its library says no")
    if "sample" in arguments:
        photos = sorted(Path(arguments["folder"]).glob("*.jpg"))[:32]
        size = (224, 224)
        batch = np.stack([np.asarray(Image.open(it).convert("RGB").resize(size)) for it in photos])
        np.save(arguments["sample"], batch[::-1] if how == "other photos" else batch)
    rows = []
    for step, workers in arguments["cases"]:
        row = {"step": step, "workers": workers or 4}
        if how == "no batches" and step == "batch":
            row["unavailable"] = "it makes none"
        else:
            row |= dict.fromkeys(["cpu_ms_per_image", "memory_mib"], 1.0)
            row["first_seconds"] = float(turns)
            row["images_per_second"] = 100.0 * min(row["workers"], 3.5)
        rows.append(row)
    return {"rows": rows}

if how == "no import":
    sys.exit("ImportError: there is no such library")
for line in sys.stdin:
    arguments = json.loads(line)
    ready = arguments["work"] == "steps.get_ready"
    print(json.dumps({"spdl": "9.9"} if ready else take_turn(arguments)), flush=True)
"""


@pytest.fixture
def make(turns: ModuleType, loaders: ModuleType, folder: Path, tmp_path: Path) -> Any:
    """Return what makes the turns of contenders that do what their name's value says."""
    program = tmp_path / "contender.py"
    program.write_text(PROGRAM)

    def make(**how: str) -> Any:
        names = {"seed": "spdl 0.8.0, image by image", "ours": "spdl-turbo, load_image_batch"}
        commands = {names[key]: (sys.executable, str(program), each) for key, each in how.items()}
        return turns.Turns(folder, 0.1, commands, {})

    return make


THEIRS, OURS = "spdl 0.8.0, image by image", "spdl-turbo, load_image_batch"


def test_medians_of_all_turns_count(make: Any) -> None:
    turns = make(seed="well")
    for _ in range(3):
        turns.take(THEIRS, [("batch", 1), ("batch", 2)])
    assert [(row["workers"], row["images_per_second"]) for row in turns.rows()] == [(1, 100), (2, 200)]
    assert turns.versions == {THEIRS: "9.9"}
    assert turns.differences[THEIRS] < 1
    assert turns.absent == {}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("no import", "ImportError: there is no such library"),
        ("broken", "its library says no"),
        ("other photos", "levels from Pillow's: it does other work"),
    ],
)
def test_who_fails_or_does_other_work_is_left_out_with_the_reason(make: Any, how: str, reason: str) -> None:
    turns = make(seed=how, ours="well")
    for name in (THEIRS, OURS):
        turns.take(name, [("batch", 1)])
    assert reason in turns.absent[THEIRS]
    assert {row["contender"] for row in turns.rows()} == {OURS}


def test_contenders_keep_their_process_where_that_is_asked_for(make: Any) -> None:
    turns = make(seed="well", ours="well")
    with turns.one_process_each():
        for name in (THEIRS, OURS, THEIRS, OURS, OURS):
            turns.take(name, [("batch", 1)])
    assert turns.versions[THEIRS] == "9.9"
    assert [it["first_seconds"] for it in turns.found[THEIRS, "batch", 1]] == [1, 2]
    assert [it["first_seconds"] for it in turns.found[OURS, "batch", 1]] == [1, 2, 3]
    turns.take(OURS, [("batch", 1)])
    assert turns.found[OURS, "batch", 1][-1]["first_seconds"] == 1


@pytest.mark.parametrize(
    ("how", "reason"),
    [("no import", "ImportError: there is no such library"), ("broken later", "its library says no")],
)
def test_who_fails_in_a_kept_process_is_left_out_with_the_reason(make: Any, how: str, reason: str) -> None:
    turns = make(seed=how, ours="well")
    with turns.one_process_each():
        for _ in range(2):
            for name in {THEIRS, OURS} - turns.absent.keys():
                turns.take(name, [("batch", 1)])
    assert turns.absent == {THEIRS: reason}
    assert {row["contender"] for row in turns.rows()} == {OURS}


def test_who_fails_in_a_later_round_has_no_figures_left(make: Any, tmp_path: Path) -> None:
    turns = make(seed="well")
    turns.take(THEIRS, [("batch", 1)])
    (tmp_path / "contender.py").write_text("raise SystemExit('gone')")
    turns.take(THEIRS, [("batch", 1)])
    assert turns.absent == {THEIRS: "gone"}
    assert turns.rows() == []


def test_a_step_that_somebody_lacks_is_told(make: Any) -> None:
    turns = make(seed="no batches")
    turns.take(THEIRS, [("batch", 1), ("normalise", 1)])
    assert turns.absent == {f"{THEIRS}: batch": "it makes none"}
    assert [row["step"] for row in turns.rows()] == ["normalise"]


def test_short_rounds_find_the_best_number_of_workers_once(make: Any, loaders: ModuleType) -> None:
    options = loaders.parse_options(["--workers", "1", "2", "4", "--other-steps", "best"])
    turns = make(seed="well")
    best: dict[str, int] = {}
    for _ in range(2):
        loaders.take_round(turns, options, ["decode", "batch", "normalise"], best, THEIRS)
    assert best == {THEIRS: 4}
    taken = {(step, workers): len(each) for (_, step, workers), each in turns.found.items()}
    assert taken == {("normalise", 1): 2, ("normalise", 2): 2, ("normalise", 4): 2, ("decode", 4): 2, ("batch", 4): 2}


def test_long_rounds_try_every_step_with_every_number(make: Any, loaders: ModuleType) -> None:
    options = loaders.parse_options(["--workers", "1", "8"])
    turns = make(seed="well")
    loaders.take_round(turns, options, ["decode", "batch"], {}, THEIRS)
    assert {key[1:] for key in turns.found} == {("decode", 1), ("decode", 8), ("batch", 1), ("batch", 8)}


# Its thread works on until nobody holds the loader, which holds itself: the garbage collector has to find it.
LOADER = """
import contextlib, itertools, threading, time, weakref

class Loader:
    def __init__(self):
        self.itself = self
        closed = threading.Event()
        weakref.finalize(self, {closing})
        threading.Thread(target=self.work, args=[closed], daemon=True).start()

    @staticmethod
    def work(closed):
        while not closed.is_set():
            pass

    def __iter__(self):
        return itertools.repeat(0)

@contextlib.contextmanager
def open_loader(paths, step, workers):
    working = [it for it in threading.enumerate() if "work" in it.name]
    assert not working, working
    yield iter(Loader())
"""


def measure_loader(folder: Path, closing: str) -> "subprocess.CompletedProcess[str]":
    (folder / "lingering.py").write_text(LOADER.format(closing=closing))
    arguments: dict[str, Any] = {"work": "steps.measure", "loader": "lingering", "keywords": {}}
    arguments |= {"folder": str(folder / "photos"), "cases": [["bare", 1], ["bare", 2]], "seconds": 0.05}
    program = ROOT / "benchmarks" / "_loaders_work"
    return subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(arguments),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )


def test_nothing_of_one_loader_works_on_while_the_next_is_measured(folder: Path) -> None:
    done = measure_loader(folder.parent, "closed.set")
    assert done.stderr == ""
    assert [row["workers"] for row in json.loads(done.stdout)["rows"]] == [1, 2]


def test_a_loader_that_does_not_end_is_told(folder: Path) -> None:
    done = measure_loader(folder.parent, "list")
    assert done.stderr == "it still works 5 seconds after it was closed\n"
    assert done.returncode == 1


speeds = st.floats(1, 1e6)


@given(ours=st.lists(speeds, min_size=1, max_size=4), theirs=st.lists(speeds, min_size=1, max_size=4))
def test_each_is_judged_at_its_best(loaders: ModuleType, ours: list[float], theirs: list[float]) -> None:
    rows = [
        {"contender": name, "step": "batch", "workers": number, "images_per_second": speed}
        for name, each in ((OURS, ours), (THEIRS, theirs))
        for number, speed in enumerate(each)
    ]
    (claim,) = loaders.judge(rows)
    assert claim["value"] == pytest.approx(max(ours) / max(theirs))
    assert claim["met"] == (max(ours) >= max(theirs))


def test_nothing_is_claimed_of_steps_without_ours(loaders: ModuleType) -> None:
    rows = [{"contender": THEIRS, "step": "batch", "workers": 1, "images_per_second": 5.0}]
    assert loaders.judge(rows) == []


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


# What keeps up with the loop for so many turns, and then no more.
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


def test_workers_that_were_late_once_are_not_tried_again(
    noisy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turns in (4, 100):
        (tmp_path / f"{turns}.py").write_text(TRAINING.format(turns=turns))
    monkeypatch.setattr(noisy, "OWN", (sys.executable, str(tmp_path / "100.py")))
    commands = {THEIRS: (sys.executable, str(tmp_path / "4.py")), OURS: (sys.executable, str(tmp_path / "100.py"))}
    rounds = noisy.Rounds(commands, "", [1, 2], tries=5)
    with rounds.prepared():
        for _ in range(5):
            for name, workers in (("no loader", 0), (THEIRS, 1), (THEIRS, 2), (OURS, 1), (OURS, 2)):
                rounds.take(name, workers, 10, 10)
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
    noisy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turns in (2, 100):
        (tmp_path / f"{turns}.py").write_text(TRAINING.format(turns=turns))
    monkeypatch.setattr(noisy, "OWN", (sys.executable, str(tmp_path / "100.py")))
    commands = {THEIRS: (sys.executable, str(tmp_path / "2.py")), OURS: (sys.executable, str(tmp_path / "100.py"))}
    rounds = noisy.Rounds(commands, "", [1, 2], tries=1)
    with rounds.prepared():
        for _ in range(4):
            for name, workers in (("no loader", 0), (THEIRS, 2), (THEIRS, 1), (OURS, 2), (OURS, 1)):
                rounds.take(name, workers, 10, 10)
    rows = {(row["contender"], row["workers"]): row for row in rounds.rows()}
    assert {key: (row["turns"], row["keeps_up"]) for key, row in rows.items()} == {
        ("no loader", 0): (4, True),
        # The first one of each disturbs least. Theirs are late once they have gone on, and nobody takes their place.
        (THEIRS, 2): (4, False),
        (THEIRS, 1): (1, True),
        (OURS, 2): (4, True),
        (OURS, 1): (1, True),
    }
    best = noisy.at_their_best(rounds.rows())
    assert {name: row["workers"] for name, row in best.items()} == {"no loader": 0, THEIRS: 2, OURS: 2}


def test_steps_beside_no_loader_are_told_as_multiples_of_themselves(benchmarks: None) -> None:
    job_server = importlib.import_module("_job_server")
    started = job_server.JobServer((sys.executable,), ROOT / "benchmarks" / "_loaders_work")
    work: dict[str, Any] = {"work": "beside.train", "loader": None, "keywords": {}, "folder": "", "workers": 0}
    found = started.run(work | {"steps": 20, "step_turns": 100})
    started.close()
    assert found["images_per_second"] == pytest.approx(320, rel=0.5)
    assert found["p50_alone_ms"] <= found["p95_alone_ms"] <= found["p99_alone_ms"] < 1000
    assert all(0.01 < found[name] < 100 for name in ("p50", "p95", "p99"))


def test_the_table_beside_a_training_loop_does_without_who_failed(noisy: ModuleType) -> None:
    row = {"contender": OURS, "workers": 2, "turns": 1, "p50_alone_ms": 4.04, "cpu_seconds_per_second": 0.5}
    beside = noisy.at_their_best([row | figures(1.5)])
    result = {
        "rounds": 3, "tries": 1, "workers": [1, 2], "absent": {"no loader": "it was ended"}, "contenders": beside,
        "rows": list(beside.values()), "claims": noisy.judge(beside),
    }  # fmt: skip
    said = importlib.import_module("_report_tables").noisy_neighbour(result)
    assert "no loader: it was ended" in said
    assert "half of these take up to 4.0 ms" in said
    assert "After 1 of 3 turns the best number alone went on." in said
    assert f"| {OURS} | 2 | 1.50 | 1.50 | 1.50 | 320 | 0.50 |  | 1.50 |" in said


@pytest.fixture
def result() -> dict[str, Any]:
    """A run in which ours lose a step, and one contender is missing."""
    about = {"workers": "threads", "resize": "stretch, bilinear, antialiased", "levels_from_pillow": 0.1}
    costs = {"cpu_ms_per_image": 1.0, "memory_mib": 100.0, "first_seconds": 0.1}
    speeds = {OURS: {"batch": 80.0, "normalise": 100.0}, THEIRS: {"batch": 90.0, "normalise": 50.0}}
    return {
        "provenance": {
            "cpu": "a <CPU>", "cores": 2.0, "python": "3.11.7", "versions": {"numpy": "2"}, "commit": "0123",
            "command": "python loaders.py", "date": "2026-01-01T00:00:00+00:00",
        },
        "rounds": 3,
        "absent": {"FFCV": "there is no OpenCV to compile it with"},
        "contenders": {name: about | {"version": "9.9"} for name in speeds},
        "rows": [
            {"contender": name, "step": step, "workers": 2, "images_per_second": speed} | costs
            for name, each in speeds.items()
            for step, speed in each.items()
        ],
    }  # fmt: skip


def test_the_report_names_lost_rows_and_who_is_missing(
    loaders: ModuleType, result: dict[str, Any], tmp_path: Path
) -> None:
    result["claims"] = loaders.judge(result["rows"])
    (tmp_path / "loaders.json").write_text(json.dumps(result))
    (tmp_path / "engine.json").write_text("of an earlier version")
    command = [sys.executable, ROOT / "benchmarks" / "report.py", tmp_path, "loaders", "noisy_neighbour"]
    said = subprocess.check_output(command, text=True)
    assert "Whole loaders: 1 of 2 comparisons are won" in said
    assert f"lost: batch: {OURS} loads 0.89 times what {THEIRS} does" in said
    assert "not run: FFCV: there is no OpenCV to compile it with" in said
    markdown, page = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    for text in (markdown, page):
        assert "there is no OpenCV to compile it with" in text
        assert "80 (2)" in text
        assert "loads 0.89 times" in text
    assert "a &lt;CPU&gt;" in page
    assert "<svg" in page
    assert not {'src="', 'href="http', "<img", "@import"} & set(page.split())
    with Image.open(tmp_path / "loaders.png") as plot:
        assert plot.width > 500


@pytest.fixture(scope="module")
def loaders_table(benchmarks: None) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield importlib.import_module("loaders_table")


@pytest.fixture
def readme(loaders_table: ModuleType) -> str:
    text: str = loaders_table.README.read_text(encoding="utf-8")
    return text


def test_readme_shows_the_recorded_runs(loaders_table: ModuleType, readme: str) -> None:
    assert loaders_table.with_table(readme, *loaders_table.recorded()) == readme, "run scripts/loaders_table.py"


def test_recorded_verdicts_follow_from_the_figures(
    loaders_table: ModuleType, loaders: ModuleType, noisy: ModuleType
) -> None:
    run, beside = loaders_table.recorded()
    assert run["claims"] == loaders.judge(run["rows"])
    assert beside["contenders"] == noisy.at_their_best(beside["rows"])
    assert beside["claims"] == noisy.judge(beside["contenders"])


def test_the_recorded_runs_are_of_all_contenders(loaders_table: ModuleType, turns: ModuleType) -> None:
    run, beside = loaders_table.recorded()
    everybody = set(turns.CONTENDERS)
    assert run["contenders"].keys() | run["absent"].keys() >= everybody
    assert beside["contenders"].keys() | beside["absent"].keys() >= everybody - {turns.BARE}


def test_a_short_comparison_takes_less_than_the_ten_minutes_that_are_told(loaders_table: ModuleType) -> None:
    run = json.loads((loaders_table.RESULTS / "bench.json").read_text())
    assert (run["effort"], run["cores"]) == ("quick", 2)
    assert run["measured"] == "loaders data_formats engine noisy_neighbour"
    assert 60 < run["seconds"] < 600


def test_a_missed_mark_is_told(loaders_table: ModuleType) -> None:
    run, beside = loaders_table.recorded()
    for claim in beside["claims"]:
        claim["met"] = True
    assert "Missed" not in loaders_table.content(run, beside)
    beside["claims"][0]["met"] = False
    assert f"Missed: p50 beside {beside['claims'][0]['of']}" in loaders_table.content(run, beside)


@pytest.fixture(scope="module")
def comparison_page(loaders_table: ModuleType) -> ModuleType:
    return importlib.import_module("comparison_page")


def test_the_page_shows_the_recorded_runs(comparison_page: ModuleType) -> None:
    text = comparison_page.PAGE.read_text(encoding="utf-8")
    assert comparison_page.with_contents(text, comparison_page.contents()) == text, "run scripts/comparison_page.py"


def test_the_page_names_all_that_was_lost(comparison_page: ModuleType, loaders_table: ModuleType) -> None:
    run, beside = loaders_table.recorded()
    assert comparison_page.lost("loaders", run).count("* ") == sum(not it["met"] for it in run["claims"])
    assert comparison_page.contents()["neighbour"].count("**missed**") == sum(not it["met"] for it in beside["claims"])


def test_other_figures_make_another_table(loaders_table: ModuleType, readme: str) -> None:
    run, beside = loaders_table.recorded()
    for row in run["rows"]:
        row["cpu_ms_per_image"] += 1
    assert loaders_table.with_table(readme, run, beside) != readme
    run, beside = loaders_table.recorded()
    for it in beside["contenders"].values():
        it["p99"] += 1
    assert loaders_table.with_table(readme, run, beside) != readme

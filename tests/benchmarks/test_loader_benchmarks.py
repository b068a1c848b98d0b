"""The benchmarks of loaders judge only by the figures, and leave no contender out silently."""

import importlib
import json
import os
import re
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
from tests.importing import importable
from tests.observe.asking import ask_until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Iterator[None]:
    pytest.importorskip("matplotlib")
    with importable("benchmarks", "scripts"):
        yield


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
    """Return a folder of 40 photos of noise, smooth enough that a filter matters little."""
    random = np.random.default_rng(0)
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(40):
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((300, 260), Image.Resampling.BICUBIC).save(photos / f"{number:02}.jpg")
    return photos


# A contender's program. Its jobs come line by line, and the environment's command says how it behaves.
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
    """Return a function that makes the turns of contenders, whose names say how they behave."""
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


# Its thread runs as long as something holds the loader. The loader holds itself, so the garbage collector must find it.
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


@pytest.mark.timeout(240)
def test_a_loader_that_does_not_end_is_told(folder: Path) -> None:
    # On a busy machine its thread may use no core for as long as one that is at rest, but not each time.
    done = ask_until(lambda: measure_loader(folder.parent, "list"), lambda done: done.returncode != 0)
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


@pytest.fixture
def result() -> dict[str, Any]:
    """Return a run in which ours lose a step and one contender is missing."""
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
    command = [sys.executable, str(ROOT / "benchmarks" / "report.py"), str(tmp_path), "loaders", "noisy_neighbour"]
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


def test_the_report_has_media_too(loaders_table: ModuleType, tmp_path: Path) -> None:
    recorded = json.loads((loaders_table.RESULTS / "audio.json").read_text())
    row = recorded["rows"]["mp3"]
    row["absent"] = {"decord": "it has no such sound"}
    row["claims"][0] |= {"value": 0.5, "met": False}
    (tmp_path / "audio.json").write_text(json.dumps(recorded | {"rows": {"mp3": row}}))
    command = [sys.executable, str(ROOT / "benchmarks" / "report.py"), str(tmp_path), "video", "audio"]
    said = subprocess.check_output(command, text=True)
    judged = [it["met"] for it in row["claims"] if it["met"] is not None]
    assert f"Audio: {sum(judged)} of {len(judged)} comparisons are won" in said
    assert f"lost: {row['title']}: files per cpu second 0.5 of {row['claims'][0]['beside']}" in said
    assert f"not run: decord, {row['title']}: it has no such sound" in said
    for text in ((tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()):
        assert "soundfile, not resampled" in text
        assert f"{row['contenders']['PyAV']['files_per_cpu_second']:,.0f}" in text
        assert "Medians of 5 rounds" in text
        assert "Not measured: decord (it has no such sound)." in text
    with Image.open(tmp_path / "audio.png") as plot:
        assert plot.width > 500


@pytest.fixture(scope="module")
def loaders_table(benchmarks: None) -> ModuleType:
    return importlib.import_module("loaders_table")


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
    (sections,) = re.findall(r"^readonly sections=\((.*)\)$", (ROOT / "scripts" / "bench.sh").read_text(), re.MULTILINE)
    assert run["measured"] == sections
    assert 60 < run["seconds"] < 600


def test_a_missed_mark_is_told(loaders_table: ModuleType) -> None:
    run, beside = loaders_table.recorded()
    for claim in (*run["claims"], *beside["claims"]):
        claim["met"] = True
    assert "lost" not in loaders_table.content(run, beside)
    beside["claims"][0]["met"] = False
    assert " 1 of its comparisons were lost: [which](" in loaders_table.content(run, beside)


def test_the_short_table_has_the_fastest_of_the_others(loaders_table: ModuleType, turns: ModuleType) -> None:
    run, beside = loaders_table.recorded()
    ours, fastest, *named = loaders_table.shown(run)
    assert (len(named), ours) == (2, OURS)
    for row in run["rows"]:
        if row["contender"] == "FFCV":
            row["images_per_second"] *= 1000
    assert loaders_table.shown(run) == [OURS, "FFCV", *named]
    assert fastest != "FFCV"
    assert turns.BARE not in loaders_table.shown(run)
    assert "| FFCV" in loaders_table.content(run, beside)


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
        row["images_per_second"] += 1
    assert loaders_table.with_table(readme, run, beside) != readme
    run, beside = loaders_table.recorded()
    for it in beside["contenders"].values():
        it["p99"] += 1
    assert loaders_table.with_table(readme, run, beside) != readme

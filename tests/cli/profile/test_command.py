"""`spdl profile`, from the command line to the output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.running import run
from tests.cli.terminal import run_on_terminal
from tests.pipeline.support import FREE_THREADED

from spdl.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

PIPELINES = """
import time
import zlib

from spdl.pipeline import Pipeline, PipelineBuilder

BLOCK = bytes(100_000)

def nap(x):
    time.sleep(0.002)
    return x

def compress(_):
    return zlib.compress(BLOCK)

def count(x):
    return sum(range(20_000))

def builder():
    return PipelineBuilder().add_source(range(64)).pipe(nap).pipe(compress).aggregate(4).pipe(count).add_sink()

def one():
    return PipelineBuilder().add_source(range(64)).pipe(nap).add_sink()

class Configs:
    config = one().get_config()

made = one()

def built():
    return made.build(num_threads=1)

def loader():
    from spdl.dataloader import DataLoader
    return DataLoader(range(64))

def incomplete():
    return PipelineBuilder().add_source([1]).pipe(nap)

def bare():
    return PipelineBuilder().add_source([1]).add_sink()

def empty():
    return PipelineBuilder().add_source([]).pipe(nap).add_sink()

def unlucky():
    raise KeyError("no dataset")

def with_size(size):
    return one()

def broken(x):
    raise ValueError("no such file")

def flaky(x):
    if x % 4 == 1:
        raise ValueError(x)
    return x

def partly_failing():
    return PipelineBuilder().add_source(range(64)).pipe(flaky).pipe(nap).add_sink()

def picky(x):
    if x % 4 == 1:
        raise ValueError(x)
    if x % 8 == 2:
        raise KeyError(str(x))
    return x

def picking():
    return PipelineBuilder().add_source(range(64)).pipe(picky).pipe(nap).add_sink()

def lacking(x):
    import no_such_package

def needing():
    return PipelineBuilder().add_source(range(64)).pipe(lacking).add_sink()

def failing():
    return PipelineBuilder().add_source([1, 2]).pipe(broken).add_sink()

def burning():
    raise_ = iter(lambda: 1 // 0, 1)
    return PipelineBuilder().add_source(raise_).pipe(nap).add_sink()

def slow():
    return one().get_config() if False else PipelineBuilder().add_source([1]).pipe(nap).pipe(
        lambda x: time.sleep(0.3) or x, name="slow").add_sink()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "pipelines.py").write_text(PIPELINES, encoding="utf-8")
    (tmp_path / "clumsy.py").write_text("import json, no_such_module\n", encoding="utf-8")
    (tmp_path / "leaving.py").write_text("raise SystemExit('usage: leaving FILE')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # A worker of xdist has one, and tables are as wide as it.
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    path = list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in ("pipelines", "clumsy", "leaving"):
        sys.modules.pop(name, None)


WORDS = {"waits", "releases", "partly", "holds", "unknown"}


def table(output: str) -> dict[str, list[str]]:
    """Return the cells of the table of stages, by stage."""
    header, _, rest = output.partition("Each stage alone: results per second at a concurrency\n")[2].partition("\n")
    names = re.split(r"\s{2,}", header)
    assert names[0] == "stage"
    assert names[-4:] == ["computes", "CPU/item", "GIL", "concurrency"] or names[-1] == "failed"
    lines = rest.partition("\n\n")[0].splitlines()[1:]
    return {cells[0]: cells[1:] for line in lines if (cells := re.split(r"\s{2,}", line.strip()))}


def test_table_and_recommendation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "pipelines:builder", "--num-inputs", "32"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    rows = table(output.out)
    assert list(rows) == ["nap", "compress", "aggregate(op=collate(4), drop_last=False)", "count"]
    # On a busy machine threads may rarely get to run, so that no more can be said.
    assert {row[-2] for name, row in rows.items() if name in ("nap", "compress", "count")} <= WORDS
    assert [int(row[-1]) >= 1 for row in rows.values()] == [True] * 4
    for name in ("nap", "compress", "count"):
        # At 1, 4, 8, 16 and 32.
        assert [float(rate.replace(",", "")) > 0 for rate in rows[name][:5]] == [True] * 5
        assert len(rows[name]) == 9
    assert re.search(r"^Recommended: num_threads=\d+, and", output.out, re.MULTILINE)
    assert re.search(r"^Expect [\d,.]+ items/s", output.out, re.MULTILINE)
    # The sentence of the verdict.
    assert re.search(r"^(GIL|CPU|I/O|Lock|Batching|Unclear|None)\. ", output.out, re.MULTILINE)


@pytest.mark.long
def test_what_stages_do_with_the_gil_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "pipelines:builder", "--num-inputs", "32"]) == 0
    rows = table(capsys.readouterr().out)
    assert rows["nap"][-2] in ("waits", "unknown")
    assert rows["compress"][-2] in ("releases", "partly", "unknown")
    assert rows["count"][-2] in {"unknown", *(("releases", "partly") if FREE_THREADED else ("holds",))}


@pytest.mark.parametrize("subject", ["one", "made", "Configs.config"])
def test_what_can_be_profiled(subject: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", f"pipelines:{subject}"]) == 0
    assert list(table(capsys.readouterr().out)) == ["nap"]


def test_failures_have_a_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "pipelines:partly_failing"]) == 0
    rows = table(capsys.readouterr().out)
    assert 20 < float(rows["flaky"][9].rstrip("%")) < 30
    assert len(rows["nap"]) == 9


@pytest.mark.parametrize(
    ("subject", "status", "complaint"),
    [
        ("pipelines", 2, "got 'pipelines'. Accepted is MODULE:NAME, where NAME is a PipelineBuilder, a PipelineConfig"),
        (":one", 2, "got ':one'. Accepted is MODULE:NAME"),
        ("pipelines.py:one", 2, "'pipelines.py' is a file. .*: write pipelines:one"),
        ("no_such:one", 2, "there is no module 'no_such', neither in .* set PYTHONPATH"),
        ("pipelines.deeper:one", 2, "there is no module 'pipelines.deeper'"),
        ("clumsy:one", 2, "importing 'clumsy' failed: ModuleNotFoundError: .*'no_such_module' .*clumsy.py:1"),
        ("leaving:one", 2, "importing 'leaving' failed: SystemExit: usage: leaving FILE .*leaving.py:1"),
        ("pipelines:two", 2, "'pipelines:two' does not exist: module 'pipelines' has no 'two'; it has .*builder.*one"),
        ("pipelines:Configs.two", 2, "'type' has no 'two'"),
        ("pipelines:BLOCK", 2, "pipelines:BLOCK is of type 'bytes'. Accepted"),
        ("pipelines:built", 2, r"pipelines:built\(\) is of type 'Pipeline'. .*Return the builder itself"),
        ("pipelines:loader", 2, r"is of type 'DataLoader'. .*A loader is watched while it runs: `spdl why`"),
        ("pipelines:incomplete", 2, r"pipelines:incomplete\(\) is not complete: .*sink"),
        ("pipelines:bare", 2, "pipelines:bare has no stages"),
        ("pipelines:unlucky", 2, r"calling pipelines:unlucky failed: KeyError: 'no dataset' \(.*pipelines.py:\d+\)"),
        ("pipelines:with_size", 2, r"pipelines:with_size is a function with parameters, \(size\)"),
        ("pipelines:empty", 1, "The source 'src' .* gave no items"),
        ("pipelines:failing", 1, "The stage 'broken' failed on every item .*no such file"),
        ("pipelines:burning", 1, r"the pipeline failed: ZeroDivisionError: .*\(.*pipelines.py:\d+\)"),
    ],
)
def test_mistakes(subject: str, status: int, complaint: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", subject]) == status
    message = capsys.readouterr().err
    assert message.startswith("spdl: ")
    assert re.search(complaint, message), message
    assert message.count("\n") == 1


def test_mistyped_options(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, complaint in (
        (["profile"], "the following arguments are required: MODULE:NAME"),
        (["profile", "a:b", "--num-inputs", "0"], "'0' is not a whole number of at least 1"),
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("rank", ["2", "10"])
def test_only_the_first_process_of_a_job(
    rank: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert main(["profile", "pipelines:one"]) == 2
    assert f"LOCAL_RANK is {rank}: only the first process of a machine profiles. Unset it." in capsys.readouterr().err


def test_a_process_of_its_own(folder: Path) -> None:
    done = run("profile", "pipelines:one", "--num-inputs", "8")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("reading the source\nmeasured nap\n")


def test_on_a_terminal(folder: Path) -> None:
    pytest.importorskip("rich", reason="the view is drawn by rich")
    shown, status = run_on_terminal(["profile", "pipelines:builder", "--num-inputs", "32"])
    assert status == 0
    # How many of its pictures are drawn depends on what else the machine does.
    assert re.search(r"measuring (nap|compress|count) at concurrency \d+", shown)
    assert "at 32" in shown.rpartition("Each stage")[2]
    assert (
        max(map(len, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.rpartition("Each stage")[2]).splitlines()[:12])) <= 110
    )


def test_ctrl_c_keeps_what_was_measured(folder: Path) -> None:
    pytest.importorskip("rich", reason="the view is drawn by rich")
    shown, status = run_on_terminal(["profile", "pipelines:slow"], interrupt_after="measuring slow at concurrency")
    assert status == 130
    assert "interrupted: these stages were measured before" in shown
    assert re.search(rf"nap\b.*({'|'.join(WORDS)})", shown)


def test_the_module_of_the_current_folder_wins(folder: Path) -> None:
    (folder / "colorsys.py").write_text(PIPELINES, encoding="utf-8")
    done = run("profile", "colorsys:one", "--num-inputs", "8")
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_it() -> None:
    done = subprocess.run([sys.executable, "-m", "spdl", "--help"], check=False, capture_output=True, text=True)
    assert "    profile  " in done.stdout


def test_failures_are_counted_by_cause_and_shown_once(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["profile", "pipelines:picking", "--json", "figures.json"]) == 0
    output = capsys.readouterr().out
    # Each time it was profiled, every stage got the items again and again.
    assert re.search(
        r"^'picky' failed on 16 of its 64 items: ValueError: \d+ \(.*pipelines.py:\d+\)$", output, re.MULTILINE
    )
    assert re.search(
        r"^'picky' failed on 8 of its 64 items: KeyError: '\d+' \(.*pipelines.py:\d+\)$", output, re.MULTILINE
    )
    assert [record.getMessage().count("Traceback") for record in caplog.records] == [1, 1]
    first, second = json.loads((folder / "figures.json").read_text())["stages"]
    assert [(it["error"].partition(":")[0], it["num_items"]) for it in first["failures"]] == [
        ("ValueError", 16),
        ("KeyError", 8),
    ]
    assert first["failures"][0]["num_calls"] > 16
    assert (first["name"], first["num_items"], first["recommended_concurrency"] >= 1) == ("picky", 64, True)
    # How many results a round has is rounded down from all rounds, the last of which may have been cut short.
    assert (second["num_items"] in (39, 40), second["failures"]) == (True, [])


def test_a_stage_that_always_fails_is_shown_once(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["profile", "pipelines:needing"]) == 1
    assert re.fullmatch(
        r"spdl: The stage 'lacking' failed on every item that it was profiled with, \d+ of them:"
        r" ModuleNotFoundError: No module named 'no_such_package' \(.*pipelines.py:\d+\)\n",
        capsys.readouterr().err,
    )
    assert [record.getMessage().count("Traceback") for record in caplog.records] == [1]


def test_figures_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "pipelines:one", "--json", "no/such/file"]) == 2
    assert "--json no/such/file cannot be written" in capsys.readouterr().err

"""Rules of the comparison and of the demo's photos that only other settings show.

Turns that fail or take too long, trials of numbers of workers, medians and what is said of them, environments that are
made anew, and damaged photos.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import NUM_PHOTOS

from spdl.cli import main
from spdl.cli._common.console import Console
from spdl.cli._demo import turn as turn_module
from spdl.cli._demo.comparison import MEASURES, Comparison, Contender, comparison_table, headline
from spdl.cli._demo.turn import (
    Environment,
    ImageWork,
    PeerUnavailable,
    Turn,
    TurnFailed,
    own_environment,
    reference_environment,
    take_turn,
    torch_environment,
)

if TYPE_CHECKING:
    from tests.cli.wheels import Wheelhouse

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

# ---- turns ----

NOTHING = '{"contender": "acting", "images": 0, "seconds": 1, "cpu_seconds": 1, "first_batch_seconds": 1}'


@pytest.fixture
def work(photos: Path) -> ImageWork:
    paths = sorted(map(str, [*photos.rglob("*.jpg"), *photos.rglob("*.png"), *photos.rglob("*.JPEG")]))
    assert len(paths) == NUM_PHOTOS
    return ImageWork(paths, batch_size=7, size=32)


def acting(tmp_path: Path, code: str) -> Environment:
    """Return a contender whose interpreter runs this code, whatever program it is given."""
    script = tmp_path / "interpreter.py"
    script.write_text(code)
    return Environment("acting", "acting", "thread", (sys.executable, str(script)))


def test_a_turn_of_ours(work: ImageWork) -> None:
    def take(seconds: float) -> Turn:
        before = time.perf_counter()
        turn = take_turn(own_environment(), work, workers=2, seconds=seconds)
        assert seconds - 0.1 < turn.seconds < time.perf_counter() - before
        return turn

    # A busy machine may not find the time to weigh a turn that is short.
    turn = take(0.7)
    if turn.peak_memory is None or turn.images <= NUM_PHOTOS:
        turn = take(15.0)
    assert turn.contender.startswith("spdl-turbo ")
    assert turn.images > NUM_PHOTOS
    assert turn.images % NUM_PHOTOS in {0, 7, 14, 21}
    assert 0 < turn.first_batch_seconds <= turn.seconds
    assert turn.cpu_seconds > 0
    assert turn.peak_memory is not None
    assert 2**20 < turn.peak_memory < 2**32


def test_a_turn_of_torch(work: ImageWork) -> None:
    pytest.importorskip("torch")
    environment = Environment("torch", "PyTorch DataLoader", "process", (sys.executable, "-P"))
    turn = take_turn(environment, work, workers=2, seconds=0.3)
    assert turn.contender.startswith("PyTorch 2.")
    assert "Pillow" in turn.contender
    assert turn.images % NUM_PHOTOS in {0, 7, 14, 21}
    # The sum includes both workers that decoded, though they are other processes.
    assert turn.cpu_seconds > 0.1


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("raise ImportError('libavdevice.so.59: cannot open shared object file')", "ImportError: libavdevice.so.59: "),
        ("import os; os._exit(3)", "it ended without a result (exit status 3)"),
        ("import os; os.abort()", "it ended without a result (exit status -6)"),
        ("print('not json')", "it ended without a result (exit status 0)"),
        ("print('{}', flush=True); raise ValueError('half way')", "ValueError: half way"),
        ("print('{\"images\": 3}', flush=True)", "it ended without a result (exit status 0)"),
        (f"print({NOTHING!r})", "it delivered no image"),
    ],
)
def test_a_contender_that_fails(code: str, complaint: str, tmp_path: Path, work: ImageWork) -> None:
    with pytest.raises(TurnFailed) as failure:
        take_turn(acting(tmp_path, code), work, workers=1, seconds=0.1)
    assert str(failure.value).startswith(complaint)
    assert "\n" not in str(failure.value)


def test_a_contender_that_hangs_is_killed_with_its_children(
    tmp_path: Path, work: ImageWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = tmp_path / "children"
    code = f"import os, time\nos.fork()\nopen({str(children)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(3600)"
    pids: list[int] = []
    # A busy machine may not have begun so soon.
    for patience in (1, 4, 16):
        children.write_text("")
        monkeypatch.setattr(turn_module, "PATIENCE", float(patience))
        with pytest.raises(TurnFailed, match=rf"took longer than {patience}\.2 s"):
            take_turn(acting(tmp_path, code), work, workers=1, seconds=0.1)
        pids = [int(pid) for pid in children.read_text().split()]
        if len(pids) == 2:
            break
    assert len(pids) == 2
    processes = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == []


def test_ctrl_c_as_a_turn_begins_ends_its_process(work: ImageWork, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def press(process: subprocess.Popen[bytes], _patience: float) -> int:
        begun.append(process)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", press)
    with pytest.raises(KeyboardInterrupt):
        take_turn(own_environment(), work, workers=1, seconds=0.1)
    (process,) = begun
    assert process.returncode == -signal.SIGKILL


# ---- trials and medians ----


def test_medians() -> None:
    turns = [Turn("us 1.0", n, 2.0, n / 50, 0.1 * n, None if n == 3 else 1000 * n) for n in (3, 1, 10)]
    contender = Contender(own_environment(), turns=turns)
    assert contender.name == "us 1.0"
    assert MEASURES["images_per_second"].of(contender) == 1.5
    assert MEASURES["images_per_cpu_second"].of(contender) == pytest.approx(50)
    assert MEASURES["first_batch_seconds"].of(contender) == pytest.approx(0.3)
    assert MEASURES["peak_memory_bytes"].of(contender) == 5500


def test_each_is_tried_with_several_numbers_of_workers(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("spdl.cli._demo.comparison.TRIAL_SECONDS", 0.2)
    figures = tmp_path / "figures.json"
    arguments = ["--seconds", "0.3", "--size", "32", "--rounds", "1", "--json", str(figures), "--report", str(tmp_path)]
    assert main(["bench", "images", str(photos), *arguments]) == 0
    (ours,) = json.loads(figures.read_text())["comparison"]["contenders"]
    trials = ours["trials_images_per_second"]
    assert list(trials) == ["1", "2", "4", "8"]
    assert trials[str(ours["workers"])] == max(trials.values())
    assert f"  spdl-turbo: {', '.join(f'{rate:,.0f}' for rate in trials.values())}; keeps " in capsys.readouterr().out


amounts = st.floats(0.01, 1e4)


def contender(label: str, *, seconds: float = 1, cpu_seconds: float = 1, memory: int | None = 2**20) -> Contender:
    turn = Turn(label, 100, seconds, cpu_seconds, seconds / 10, memory)
    return Contender(Environment(label, label, "thread", ()), workers=2, turns=[turn])


@given(amounts, amounts)
def test_twice_as_fast_is_twice_as_good_by_every_measure_of_time(one: float, other: float) -> None:
    ours = contender("ours", seconds=one, cpu_seconds=other)
    theirs = contender("theirs", seconds=2 * one, cpu_seconds=2 * other)
    for name in ("images_per_second", "images_per_cpu_second", "cpu_seconds_per_image", "first_batch_seconds"):
        assert MEASURES[name].advantage(ours, theirs) == pytest.approx(2)
        assert MEASURES[name].advantage(theirs, ours) == pytest.approx(0.5)
        assert MEASURES[name].verdict(ours, theirs) == "2.00x better"
        assert MEASURES[name].verdict(theirs, ours) == "2.00x worse"


def test_less_memory_is_better() -> None:
    ours, theirs = contender("ours", memory=2**20), contender("theirs", memory=5 * 2**20)
    assert MEASURES["peak_memory_bytes"].verdict(ours, theirs) == "5.00x better"
    assert MEASURES["peak_memory_bytes"].cell(theirs) == "5"


def test_what_was_not_measured_has_no_verdict() -> None:
    ours, theirs = contender("ours"), contender("theirs", memory=None)
    measure = MEASURES["peak_memory_bytes"]
    assert (measure.advantage(ours, theirs), measure.verdict(ours, theirs), measure.cell(theirs)) == (None, "-", "-")


def test_the_table_and_the_headline() -> None:
    ours, theirs = contender("ours", cpu_seconds=0.5), contender("theirs")
    comparison = Comparison([ours, theirs], {})
    table = comparison_table(comparison)
    assert list(table.header) == ["", "ours", "theirs", "ours is"]
    assert ["images per CPU-second", "200", "100", "2.00x better"] in table.rows
    assert table.rows[0] == ["workers", "2 threads", "2 threads", ""]
    assert headline(comparison) == "ours: 200 images per CPU-second, 2.00x better than theirs"
    assert headline(Comparison([ours], {})) == "ours: 200 images per CPU-second"


# ---- environments ----


@pytest.fixture
def console(capsys: pytest.CaptureFixture[str]) -> Console:
    assert capsys is not None  # With this fixture, standard output is no terminal.
    return Console()


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def peer_wheels(wheelhouse: Wheelhouse) -> Wheelhouse:
    for name in ("numpy", "pillow"):
        wheelhouse.add(name, "1.0", {f"{name}.py": b""})
    wheelhouse.add("spdl", "0.8.0", {"spdl.py": b"ours = False"})
    wheelhouse.add("torch", "2.13.0", {"torch.py": b""}, requires=["numpy"])
    return wheelhouse


@pytest.mark.usefixtures("peer_wheels")
def test_the_reference_lives_apart_and_is_installed_once(
    console: Console, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = reference_environment(console)
    assert f"installing spdl==0.8.0 into {cache}/peers/reference-3." in capsys.readouterr().out
    # It keeps its own modules even with ours on the path.
    monkeypatch.setenv("PYTHONPATH", str(Path(turn_module.__file__).parents[3]))
    done = subprocess.run(
        [*environment.command, "-c", "import spdl; print(spdl.ours)"], check=True, capture_output=True
    )
    assert done.stdout == b"False\n"

    monkeypatch.delenv("PIP_FIND_LINKS")
    assert reference_environment(console) == environment
    assert capsys.readouterr().out == ""


def forget_the_mark(folder: Path) -> None:
    (folder / "whole.json").unlink()


def ask_for_another_version(folder: Path) -> None:
    (folder / "whole.json").write_text(json.dumps({"requirements": ["spdl==0.7.0"]}))


def remove_the_interpreter(folder: Path) -> None:
    (folder / "bin" / "python").unlink()


@pytest.mark.usefixtures("peer_wheels")
def test_an_environment_that_is_not_whole_is_made_anew(console: Console, cache: Path) -> None:
    environment = reference_environment(console)
    (folder,) = [path for path in (cache / "peers").iterdir() if path.is_dir()]
    for damage in (forget_the_mark, ask_for_another_version, remove_the_interpreter):
        (folder / "leftover").touch()
        damage(folder)
        assert reference_environment(console) == environment, damage
        subprocess.run([*environment.command, "-c", "import spdl, numpy"], check=True)
        assert not (folder / "leftover").exists()


def test_an_environment_without_an_index_is_unavailable(console: Console) -> None:
    with pytest.raises(PeerUnavailable, match=r"^pip cannot install spdl==0\.8\.0: No matching distribution found for"):
        reference_environment(console)


@pytest.mark.usefixtures("without_torch", "peer_wheels")
def test_torch_is_large_so_it_is_installed_only_when_asked_for(console: Console, cache: Path) -> None:
    with pytest.raises(PeerUnavailable, match=r"not installed; --peers installs it once, 200 MB to download, 800 MB"):
        torch_environment(console, install=False)
    assert not list(cache.rglob("torch.py"))
    installed = torch_environment(console, install=True)
    assert Path(installed.command[0]).is_relative_to(cache)
    subprocess.run([*installed.command, "-c", "import torch, pillow"], check=True)
    # One that is there takes part without being asked for.
    assert torch_environment(console, install=False) == installed


@pytest.mark.usefixtures("without_torch")
def test_torch_with_cuda_is_refused(console: Console, peer_wheels: Wheelhouse, cache: Path) -> None:
    peer_wheels.add("nvidia-cublas", "1.0", {"cublas.py": b""})
    peer_wheels.add("torch", "2.13.0", {"torch.py": b""}, requires=["nvidia-cublas"])
    with pytest.raises(PeerUnavailable, match="pip would install 1 CUDA package with it; a CPU build for this Python"):
        torch_environment(console, install=True)
    assert not list(cache.rglob("cublas.py"))


def test_torch_that_is_here_is_used(console: Console, cache: Path) -> None:
    pytest.importorskip("torch")
    torch_environment(console, install=False)
    assert not cache.exists()

import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import NUM_PHOTOS
from tests.delays import tolerates_delays

from spdl.cli._demo import turn as turn_module
from spdl.cli._demo.peers import Environment, own_environment
from spdl.cli._demo.turn import TurnFailed, Work, take_turn

NOTHING = '{"images": 0, "seconds": 1, "cpu_seconds": 1, "first_batch_seconds": 1}'


@pytest.fixture
def work(photos: Path) -> Work:
    paths = sorted(map(str, [*photos.rglob("*.jpg"), *photos.rglob("*.png"), *photos.rglob("*.JPEG")]))
    assert len(paths) == NUM_PHOTOS
    return Work(paths, batch_size=7, size=32)


def acting(tmp_path: Path, code: str) -> Environment:
    """Return a contender whose interpreter runs this code, whatever program it is given."""
    script = tmp_path / "interpreter.py"
    script.write_text(code)
    return Environment("acting", "acting", "thread", (sys.executable, str(script)))


@tolerates_delays
def test_ours(work: Work) -> None:
    before = time.perf_counter()
    turn = take_turn(own_environment(), work, workers=2, seconds=0.7)
    lasted = time.perf_counter() - before
    assert turn.contender.startswith("spdl-turbo ")
    assert turn.images > NUM_PHOTOS
    assert turn.images % NUM_PHOTOS in {0, 7, 14, 21}
    assert 0 < turn.first_batch_seconds < turn.seconds
    assert 0.6 < turn.seconds < lasted
    assert turn.cpu_seconds > 0
    assert turn.peak_memory is not None
    assert turn.memory_before is not None
    assert 2**20 < turn.memory_before < turn.peak_memory < 2**32


def test_torch(work: Work) -> None:
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
        ("print('\"name\"', flush=True); input(); raise ValueError('half way')", "ValueError: half way"),
        ("print('\"name\"', flush=True)", "it ended without a result (exit status 0)"),
        (f"print('\"name\"', flush=True); input(); print({NOTHING!r})", "it delivered no image"),
    ],
)
def test_a_contender_that_fails(code: str, complaint: str, tmp_path: Path, work: Work) -> None:
    with pytest.raises(TurnFailed) as failure:
        take_turn(acting(tmp_path, code), work, workers=1, seconds=0.1)
    assert str(failure.value).startswith(complaint)
    assert "\n" not in str(failure.value)


def test_a_contender_that_hangs_is_killed_with_its_children(
    tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch
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

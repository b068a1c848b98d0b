"""One turn of a contender, in its own process and environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple

from spdl._files import cache_folder, only_one
from spdl.cli._common.machine import PipError, abbreviated, pip, session_memory
from spdl.cli._common.text import several
from spdl.cli._demo import contender

if TYPE_CHECKING:
    from spdl.cli._common.console import Console

REFERENCE = ("spdl==0.8.0", "numpy")
TORCH = ("torch==2.13.0", "pillow", "numpy")
TORCH_SIZE = "200 MB to download, 800 MB on disk"
"""The size of the build for CPUs. A peer of more than 100 MB is installed only when that is asked for."""


class PeerUnavailable(Exception):  # noqa: N818 (a situation that is reported, not an error)
    """Raised when a contender's environment cannot be made. The message is one line with the remedy."""


@dataclass(frozen=True)
class Environment:
    """The interpreter of a contender with options, its key in the contender program, and its name in tables."""

    contender: str
    label: str
    worker: str
    command: tuple[str, ...]


def own_environment() -> Environment:
    """Return this interpreter. Like every contender, this package runs in its own process."""
    return Environment("spdl-turbo", "spdl-turbo", "thread", (sys.executable, "-P"))


def torch_environment(console: Console, *, install: bool) -> Environment:
    """Return an environment with PyTorch and Pillow: the current one if it has them, else a separate one."""
    label = "PyTorch DataLoader"
    if find_spec("torch") and find_spec("PIL"):
        return Environment("torch", label, "process", (sys.executable, "-P"))
    refusal = "" if install else f"it is not installed; --peers installs it once, {TORCH_SIZE}"
    python = made_environment("torch", TORCH, console, install=install_torch, refusal=refusal)
    return Environment("torch", label, "process", (str(python), "-I"))


def reference_environment(console: Console) -> Environment:
    """Return an environment with the released reference: a separate one, as both packages have the same modules."""
    # Isolated, because a PYTHONPATH that leads to our modules would run ours under the reference's name.
    python = made_environment("reference", REFERENCE, console)
    return Environment("reference", "spdl 0.8.0", "thread", (str(python), "-I"))


def made_environment(
    name: str,
    requirements: Sequence[str],
    console: Console,
    *,
    install: Callable[[Path, Sequence[str]], object] | None = None,
    refusal: str = "",
) -> Path:
    """Return the interpreter of a named environment in the cache. Make it if it is missing, outdated or half-made.

    The requirements name the contender first; if they change, the environment is made again. `install` installs them,
    if this takes more than pip alone. With a refusal, a missing environment is not made. All that prevents it is a
    PeerUnavailable.
    """
    folder = cache_folder() / "peers" / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    # Its programs know their path, so an environment cannot be renamed into place. A file written last marks it whole.
    whole = folder / "whole.json"
    wanted = json.dumps({"requirements": requirements, "base": sys.base_prefix})
    try:
        with only_one(folder):
            if not (whole.exists() and whole.read_text() == wanted and python.exists()):
                if refusal:
                    raise PeerUnavailable(refusal)
                shutil.rmtree(folder, ignore_errors=True)
                console.print(f"installing {requirements[0]} into {abbreviated(folder)} (once)")
                venv.create(folder, symlinks=True)
                (install or install_all)(python, requirements)
                whole.write_text(wanted)
    except PipError as error:
        raise PeerUnavailable(f"pip cannot install {requirements[0]}: {error}") from error
    except OSError as error:
        raise PeerUnavailable(f"its environment {abbreviated(folder)} cannot be made: {error}") from error
    return python


def install_all(python: Path, requirements: Sequence[str]) -> None:
    pip("--python", str(python), "install", *requirements)


def install_torch(python: Path, requirements: Sequence[str]) -> None:
    """Let pip install PyTorch and the other requirements for that interpreter, unless this would bring CUDA along."""
    report = pip("--python", str(python), "install", "--dry-run", "--report", "-", *requirements)
    names = [item["metadata"]["name"] for item in json.loads(report)["install"]]
    if cuda := [name for name in names if name.lower().startswith(("nvidia-", "cuda-"))]:
        raise PeerUnavailable(
            f"pip would install {several(len(cuda), 'CUDA package')} with it; a CPU build for this Python, and Pillow,"
            " are enough: pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install"
            " 'spdl-turbo[demo]'"
        )
    install_all(python, requirements)


SHARE_OF_WEIGHING = 0.05
"""The share of one processor that measuring memory may take. The system walks all pages of all processes for it."""
SHORTEST_PAUSE = 0.1
PATIENCE = 120.0
"""Seconds that importing, starting and ending may take together before the processes are killed."""


@dataclass(frozen=True)
class ImageWork:
    paths: Sequence[str]
    batch_size: int
    size: int


class Turn(NamedTuple):
    """The result of one turn. Times are from the start of its workers; CPU time includes their start and end."""

    contender: str
    images: int
    seconds: float
    cpu_seconds: float
    first_batch_seconds: float
    peak_memory: int | None  # Of all processes together.


class TurnFailed(Exception):  # noqa: N818 (a situation that is reported, not an error)
    """Raised when a contender's process fails or exceeds its time. The message is its last complaint, in one line."""


def take_turn(environment: Environment, work: ImageWork, *, workers: int, seconds: float) -> Turn:
    """Run a contender once. After these seconds it begins no new batches, and finishes those begun.

    Raises a TurnFailed if it failed, delivered nothing or exceeded its time.
    """
    with TemporaryDirectory(prefix="spdl-turn-") as folder, TemporaryFile() as said, TemporaryFile() as complaints:
        job = {**asdict(work), "contender": environment.contender, "workers": workers, "seconds": seconds}
        job_file = Path(folder, "job.json")
        job_file.write_text(json.dumps(job))
        with subprocess.Popen(
            [*environment.command, contender.__file__, str(job_file)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complaints,
            # It gets its own session: Ctrl-C does not reach it, and its processes can be weighed and ended together.
            start_new_session=True,
        ) as process:
            patience = 2 * seconds + PATIENCE
            try:
                status, peak = _weighed(process, patience)
            except subprocess.TimeoutExpired:
                raise TurnFailed(f"it took longer than {patience:g} s") from None
            finally:
                _kill(process)
        try:
            turn = Turn(**json.loads(_last_line(said)), peak_memory=peak)
        except (ValueError, TypeError) as error:
            raise TurnFailed(_last_line(complaints) or f"it ended without a result (exit status {status})") from error
    if not turn.images:
        raise TurnFailed("it delivered no image")
    return turn


def _weighed(process: subprocess.Popen[bytes], patience: float) -> tuple[int, int | None]:
    """Wait for a process, and return its status and the most memory that its session held.

    The memory is measured again and again, from outside, so that this costs the contender nothing.
    """
    peak: int | None = None
    pause, deadline = SHORTEST_PAUSE, time.monotonic() + patience
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(pause), peak
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, patience)
        before = time.thread_time()
        if (memory := session_memory(process.pid)) is not None:
            peak = max(peak or 0, memory)
        pause = max(SHORTEST_PAUSE, (time.thread_time() - before) / SHARE_OF_WEIGHING)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The group outlives its leader while a worker is left in it. The number is not reused before that.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(printed: IO[bytes]) -> str:
    printed.seek(0)
    lines = [line.strip() for line in printed.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""

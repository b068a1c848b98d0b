"""The machine, the packages on it, programs that run on it for a command, and what processes use of it."""

from __future__ import annotations

import datetime as dt
import os
import platform
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import spdl
from spdl._cores import available_cores
from spdl.cli._common.console import CommandError
from spdl.pipeline._report.threads import stat_fields


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder. It replaces `folder` if the block succeeds, and is removed if it does not.

    Nobody ever sees a half-made `folder`. Only one process at a time may do this: see `only_one`.
    """
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.making-", dir=folder.parent))
    try:
        yield making
        if folder.exists():
            # A rename cannot replace a folder that is not empty, so the old one moves into the new one first.
            folder.rename(making / "replaced")
        making.rename(folder)
        shutil.rmtree(folder / "replaced", ignore_errors=True)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def abbreviated(path: Path | str) -> str:
    """Return the path as a user would type it, with `~` for the home folder."""
    path = Path(path).absolute()
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


class PipError(Exception):
    """Raised when pip is missing, fails or takes too long. The message is the last line of pip's own complaint."""


def pip(*arguments: str, timeout: float = 900) -> str:
    """Run `pip ARGUMENTS` and return its output.

    Raises:
        PipError: pip is missing, failed, or took longer than `timeout` seconds.
    """
    if find_spec("pip") is None:
        raise PipError(f"this Python has no pip (add it with: {sys.executable} -m ensurepip)")
    # Only one retry: without a network, pip would otherwise spend half a minute per package on retries.
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries=1", "--timeout=20")
    command = (sys.executable, "-m", "pip", *options, *arguments)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=os.environ | {"NO_COLOR": "1"},
        start_new_session=True,
    ) as running:
        try:
            stdout, stderr = running.communicate(timeout=timeout)
        except BaseException as error:
            # With --python, pip works in a child process, which would go on in a folder that others then take over.
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PipError(f"pip took longer than {timeout:.0f} s") from None
            raise
    if running.returncode:
        raise PipError(_complaint(stderr) or f"pip exited with status {running.returncode}")
    return stdout


def _complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1]


def cpu_seconds() -> float:
    """Return the user and system seconds of this process and of those children that it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_memory() -> int:
    """Return the most memory that this whole process has held, in bytes (resident set)."""
    # ru_maxrss survives exec and so starts at the parent's value. It is the last resort.
    return _field(Path("/proc/self/status"), "VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def session_memory(session: int) -> int | None:
    """Return the memory that a session's processes hold now, in bytes, or None if the system does not report it.

    The result is the sum of their proportional set sizes: a page that n processes share counts 1/n in each. Forked
    workers are thus not charged for the libraries that they share.
    """
    sizes = [_field(process / "smaps_rollup", "Pss:") for process in _session_members(session)]
    return sum(sizes) or None


def _session_members(session: int) -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # The process has ended in the meantime.
            # The fields are its state, its parent, process group and session.
            if int(stat_fields(process.name)[3]) == session:
                yield process


def _field(file: Path, name: str) -> int:
    with suppress(OSError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


DISTRIBUTIONS = ("numpy", "pillow", "simplejpeg", "torch")


def provenance() -> dict[str, object]:
    """Describe the machine, the software and the command of a measurement, as JSON can hold it.

    `commit` ends with `-dirty` if tracked files differ from it, and is None outside a checkout of this project.
    """
    return {
        "cpu": _cpu_model(),
        "cores": available_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"spdl-turbo": spdl.__version__, **_versions()},
        "commit": _commit(),
        "command": _command(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str]:
    versions = {}
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str | None:
    # If this file is installed in an environment inside another project's checkout, it is not a file of that project.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    return _git("describe", "--always", "--abbrev=12", "--dirty", "--exclude=*")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - any git that the user has.
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _command() -> str:
    # Paths of the measuring machine tell a reader nothing, and may reveal too much.
    program, *arguments = sys.argv
    shown = [abbreviated(it) if it.startswith("/") else it for it in arguments]
    return shlex.join([Path(sys.executable).name, Path(program).name, *shown])


# The exit status of shells for a program that cannot be run, and for one that does not exist.
_CANNOT_RUN, _NOT_FOUND = 126, 127
_SIGNALLED = 128


def run_program(
    words: Sequence[str],
    environment: Mapping[str, str],
    signals: Sequence[signal.Signals],
    *,
    stdout: int | None = None,
) -> int:
    """Run a program with more in its environment, and return its exit status as shells report it.

    These signals are passed on to it. `stdout` is a file descriptor that takes the place of its output.
    """
    try:
        process = subprocess.Popen(words, env=os.environ | environment, stdout=stdout)
    except FileNotFoundError as error:
        raise CommandError(f"there is no program {words[0]}", exit_status=_NOT_FOUND) from error
    except OSError as error:
        raise CommandError(f"{words[0]} cannot be run: {error.strerror}", exit_status=_CANNOT_RUN) from error
    with process, _passed_on(process, signals):
        status = process.wait()
    return status if status >= 0 else _SIGNALLED - status


@contextmanager
def _passed_on(process: subprocess.Popen[bytes], numbers: Sequence[signal.Signals]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        # A terminal sends its signals to the program, too.
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    previous = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False

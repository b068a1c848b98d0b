"""The other loaders of the comparison, each in an environment that has it installed."""

from __future__ import annotations

import json
import shutil
import sys
import venv
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spdl._files import cache_folder, only_one
from spdl.cli._common.cache import abbreviated
from spdl.cli._common.pip import PipError, pip
from spdl.cli._common.text import several

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spdl.cli._common.console import Console

REFERENCE = ("spdl==0.8.0", "numpy")
TORCH = ("torch==2.13.0", "pillow", "numpy")
TORCH_SIZE = "200 MB to download, 800 MB on disk"
"""The size of the build for CPUs. A peer of more than 100 MB is installed only when that is asked for."""


class PeerUnavailable(Exception):  # noqa: N818 (a situation that is reported, not an error)
    """Raised when a contender's environment cannot be made. The message is one line with the remedy."""


@dataclass(frozen=True)
class Environment:
    """The environment that a contender runs in.

    Attributes:
        contender: The contender's key in the contender program.
        label: The contender's name in tables.
        worker: The kind of its workers: a thread or a process.
        command: The command that starts the interpreter, with options.
    """

    contender: str
    label: str
    worker: str
    command: tuple[str, ...]


def own_environment() -> Environment:
    """Return this interpreter. Like every contender, this package runs in a process of its own."""
    return Environment("spdl-turbo", "spdl-turbo", "thread", (sys.executable, "-P"))


def torch_environment(console: Console, *, install: bool) -> Environment:
    """Return an environment with PyTorch and Pillow: the current one if it has them, else a separate one.

    Args:
        console: The console for messages about slow steps.
        install: Whether to make the separate one if it is missing.

    Raises:
        PeerUnavailable: PyTorch is missing and shall not be installed, or cannot be, or only with gigabytes of CUDA
            libraries.
    """
    label = "PyTorch DataLoader"
    if find_spec("torch") and find_spec("PIL"):
        return Environment("torch", label, "process", (sys.executable, "-P"))
    refusal = "" if install else f"it is not installed; --peers installs it once, {TORCH_SIZE}"
    python = made_environment("torch", TORCH, console, install=install_torch, refusal=refusal)
    return Environment("torch", label, "process", (str(python), "-I"))


def reference_environment(console: Console) -> Environment:
    """Return an environment with the released reference. It is a separate one, as both packages have the same modules.

    Raises:
        PeerUnavailable: The reference cannot be installed.
    """
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

    Args:
        name: The name of the environment.
        requirements: Its packages, the contender's first. If they change, the environment is made anew.
        console: The console for messages about slow steps.
        install: Installs the requirements for that interpreter, if this takes more than pip alone.
        refusal: Why the environment is not made if it is missing; empty if it is.

    Raises:
        PeerUnavailable: The environment cannot or shall not be made.
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
    """Let pip install the requirements and their dependencies for that interpreter."""
    pip("--python", str(python), "install", *requirements)


def install_torch(python: Path, requirements: Sequence[str]) -> None:
    """Let pip install PyTorch and the other requirements for that interpreter, unless this would bring CUDA along.

    Raises:
        PeerUnavailable: It would bring CUDA. The message says how to get a build for CPUs.
    """
    report = pip("--python", str(python), "install", "--dry-run", "--report", "-", *requirements)
    names = [item["metadata"]["name"] for item in json.loads(report)["install"]]
    if cuda := [name for name in names if name.lower().startswith(("nvidia-", "cuda-"))]:
        raise PeerUnavailable(
            f"pip would install {several(len(cuda), 'CUDA package')} with it; a CPU build for this Python, and Pillow,"
            " are enough: pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install"
            " 'spdl-turbo[demo]'"
        )
    install_all(python, requirements)

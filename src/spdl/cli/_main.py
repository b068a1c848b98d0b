"""The command line of `spdl`: parse it and call the command."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from spdl.cli._common.console import FAILED, INTERRUPTED, CommandError, say
from spdl.observe._verdict.verdict import KINDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `spdl` command.

    Args:
        arguments: The words after the command's name. The default is the command line of the process.

    Returns:
        The exit status: 0 for success, 1 for a failure, 2 for wrong input, 130 after Ctrl-C. For `spdl advise`,
        the job's.

    Raises:
        SystemExit: For `--help`, `--version` (status 0) and wrong options (status 2), as argparse does.

    Example:
        >>> from spdl.cli import main
        >>> main(["bench", "images", "no/such/folder"])
        2
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The caller has closed it. The next file that is opened would take its number, and what is printed there.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - it stays open.
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, TextIOWrapper):
            # The terminal's encoding may lack characters.
            stream.reconfigure(errors="backslashreplace")
    options = make_parser().parse_args(arguments)
    try:
        with _termination_unwinds():
            return _run(options)
    except CommandError as error:
        say(str(error))
        return error.exit_status
    except ImportError as error:
        # The installation is broken. The message has the repair, if it is known.
        print(f"spdl: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone. Without this, the interpreter complains again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        # For a full disk or too many open files, the system's message says everything.
        say(str(error))
        return FAILED


_PLACES = {
    "demo": ("_demo.bench_images", "demo"),
    "bench": ("_demo.bench_images", "bench_images"),
    "profile": ("_profile.profile", "profile"),
    "advise": ("_advise.advise", "advise"),
    "record": ("_record", "record"),
    "ps": ("_observe.ps", "ps"),
    "top": ("_observe.top", "top"),
    "why": ("_observe.why", "why"),
    "stack": ("_observe.stack", "stack"),
}
"""Where the functions of the commands are. They are imported when they are needed, so that --help, --version and a
mistyped option respond at once."""


def _run(options: argparse.Namespace) -> int:
    module, function = _PLACES[options.command]
    status: int = getattr(importlib.import_module(f"spdl.cli.{module}"), function)(options)
    return status


_EXAMPLES = """\
examples:
  spdl demo                            512 files of real photos, beside other loaders
  spdl bench images photos --no-peers  your folder, without other loaders
  spdl profile loading:pipeline        the stages of pipeline() in loading.py
  spdl advise -- python train.py       does a PyTorch job wait for its loader?
  spdl record -- python train.py       a trace of what each thread does when
  spdl record 4711                     the same of a process that runs
  spdl top                             what the pipelines of your programs do
  spdl why 4711                        what limits the pipelines of process 4711
  spdl stack 4711                      which line each of its threads is at

`spdl COMMAND --help` lists the options of a command.
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spdl",
        description="Load data for machine learning, and see how fast.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    _add_demo(commands)
    _add_profile(commands)
    _add_advise(commands)
    _add_observers(commands)
    _add_record(commands)
    return parser


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name.
_COMPARED = (
    "with a live view (the stages, what limits them, images per second, CPU time, memory), then with other loaders, in"
    " turns and in separate processes, and draw the comparison in report.png. Missing loaders are"
    " first installed by pip, once, into separate environments in the user's cache: spdl 0.8.0, and with --peers also"
    " loaders of more than 100 MB."
)


def _add_demo(commands: _Commands) -> None:
    job = argparse.ArgumentParser(add_help=False)
    add = job.add_argument
    add("--batch-size", type=_count, default=32, metavar="N", help="images per batch (default: %(default)s)")
    wide = "pixels each image is wide and high (default: %(default)s)"
    add("--size", type=_count, default=224, metavar="N", help=wide)
    workers = (
        "threads or processes of every loader (default: one thread per core in the live run, and in the comparison each"
        " loader's best of 1, 2, 4 and 8)"
    )
    add("--workers", type=_count, metavar="N", help=workers)
    long = "length of the live run, and of each loader's turn in the comparison (default: %(default)s)"
    add("--seconds", type=_duration, default=4.0, metavar="S", help=long)
    add("--rounds", type=_count, default=5, metavar="N", help="turns each loader takes (default: %(default)s)")
    peers = job.add_mutually_exclusive_group()
    peers.add_argument("--no-peers", action="store_true", help="skip the comparison with other loaders and its report")
    large = "install loaders of more than 100 MB as well, once: PyTorch (200 MB to download, 800 MB on disk)"
    peers.add_argument("--peers", action="store_true", help=large)
    _add_json(job)
    where = "where report.png goes (default: here)"
    add("--report", type=Path, default=Path(), metavar="DIR", help=where)

    commands.add_parser(
        "demo",
        help="load 512 files of real photos with a live view, and compare with other loaders",
        description=f"Fetch ten real photos once and cut 512 files from them, load these {_COMPARED}",
        parents=[job],
    )
    bench = commands.add_parser(
        "bench", help="measure loading of your own data", description="Measure how fast your own data can be loaded."
    )
    subjects = bench.add_subparsers(dest="subject", required=True, metavar="WHAT", title="what to load")
    images = subjects.add_parser(
        "images",
        help="a folder of images: decoded, resized, batched",
        description=f"Load a folder of images into batches {_COMPARED}",
        parents=[job],
    )
    images.add_argument("folder", type=Path, metavar="DIR", help="the folder, searched with its sub-folders")


def _add_profile(commands: _Commands) -> None:
    profile = commands.add_parser(
        "profile",
        help="measure each stage of your own pipeline alone",
        description="Measure each stage of a pipeline alone at concurrencies of 32, 16, 8, 4 and 1, some 5 seconds for"
        " a stage, say which stages hold the GIL and which one is the limit, and recommend a concurrency for each. Ops"
        " run in threads, and are called with the same items again and again.",
        epilog="For a function `pipeline` in loading.py that returns a PipelineBuilder: spdl profile loading:pipeline",
    )
    what = (
        "a PipelineBuilder or PipelineConfig, or a function that returns one, in a module of this folder or an"
        " installed one"
    )
    profile.add_argument("subject", metavar="MODULE:NAME", help=what)
    most = (
        "most items read from the source, within 5 seconds; all of them and their results are held in memory (default:"
        " %(default)s)"
    )
    profile.add_argument("--num-inputs", type=_count, default=1000, metavar="N", help=most)
    _add_json(profile)


def _add_record(commands: _Commands) -> None:
    record = commands.add_parser(
        "record",
        help="record a trace of a program's pipelines, for https://ui.perfetto.dev",
        description="Record what pipelines do: when each op runs on which thread, which way each item takes, how many"
        " items are in the queues, when the training loop waits. For a program that the command starts, the latest"
        " events of each process are kept in memory and written when it ends, also by Ctrl-C or SIGTERM, which the"
        " program gets. The exit status is the program's, or 1 if the program succeeded but left no trace. A process"
        " that runs already is recorded for some seconds, or until Ctrl-C, with no preparation, and then continues as"
        " before. If it has started several that run pipelines, as torchrun does, all are recorded at once, into one"
        " file, which names the rank of each. The exit status is 0, or 1 if the trace of one is missing.",
        epilog="For example: spdl record -o trace.json.gz -- torchrun --nproc-per-node 2 train.py",
        usage="spdl record [-o FILE] -- PROGRAM ...\n       spdl record [-o FILE] [--seconds S] [--wait S] PID",
    )
    record.set_defaults(pid=None)
    _add_recording(record)
    record.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        action=_ProgramOrProcess,
        metavar="PID or -- PROGRAM ...",
        help="the process to record, or one that has started what is recorded, such as torchrun; or the program to run",
    )


def _add_recording(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    where = "where the trace goes; compressed if the name ends with .gz (default: %(default)s)"
    add("-o", "--output", type=Path, default=Path("trace.json.gz"), metavar="FILE", help=where)
    # The defaults are in the command: it tells whether they were given.
    add("--seconds", type=_duration, metavar="S", help="how long to record a process (default: 5)")
    add("--wait", type=_duration, metavar="S", help="how long to wait until a process answers (default: 10)")


class _ProgramOrProcess(argparse.Action):
    """Takes the rest of the line: a program with its arguments, or the number of a process and more options."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values)
        # A program of such a name can stand after --.
        if values and values[0].isdecimal():
            rest = argparse.ArgumentParser(prog=parser.prog, usage=parser.usage, add_help=False)
            rest.add_argument("pid", type=_count)
            _add_recording(rest)
            # The options given before stay.
            rest.parse_args(values, namespace)


def _add_advise(commands: _Commands) -> None:
    advise = commands.add_parser(
        "advise",
        help="run a PyTorch job and say whether it waits for its loader",
        description="Run a job that loads with PyTorch's DataLoader, unchanged, and measure its loops and its workers."
        " If they wait, other ways to load are tried for some seconds each, with the job's own items, in a copy of its"
        " process, while the job stands still. When it ends, a page on stderr says which share of the time it waits for"
        " data, for what, what the trial showed, and which lines to change. The job keeps its streams, signals and"
        " exit status.",
        epilog="Processes that the job starts are measured, too: spdl advise -- torchrun --nproc-per-node 4 train.py",
    )
    _add_json(advise, ", and what the job prints goes to stderr then")
    long = "how long each way to load is tried (default: %(default)g; 0 tries none)"
    advise.add_argument("--trial-seconds", type=_duration_or_0, default=2.0, metavar="SECONDS", help=long)
    job = "the command that runs the job, as in a shell"
    advise.add_argument("job", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help=job)


_PROCESS = "the process, or one that has started it, such as torchrun"
_PROCESS_OF_JOB = f"{_PROCESS} (default: all ranks of the only job that there is)"


def _add_observers(commands: _Commands) -> None:
    ps = commands.add_parser(
        "ps",
        help="list the pipelines that run in your programs",
        description="List the pipelines that run in your processes on this machine, of all ranks. Those whose process"
        " was killed are listed for ten minutes more. Nothing is asked of the processes.",
    )
    ps.add_argument("--json", action="store_true", help="print a list in JSON")

    top = commands.add_parser(
        "top",
        help="watch the pipelines that run in your programs",
        description="Show how busy the stages of running pipelines are and what limits them: a live table on a"
        " terminal, and a line for each pipeline and interval elsewhere. Nothing is asked of the processes.",
    )
    top.add_argument("pid", type=_count, nargs="?", metavar="PID", help=f"{_PROCESS} (default: all your processes)")
    top.add_argument("--once", action="store_true", help="show one table of each pipeline, and end")
    top.add_argument("--json", action="store_true", help="print a line of JSON for each interval")
    between = "seconds between updates; the numbers are of the last such interval (default: %(default)s)"
    top.add_argument("--interval", type=_duration, default=1.0, metavar="S", help=between)

    statuses = ", ".join(f"{status} {kind}" for kind, status in KINDS.items() if status)
    why = commands.add_parser(
        "why",
        help="say what limits a pipeline that runs in one of your programs",
        description="Watch the pipelines of a process, or of all ranks of a job, for about a second and say what limits"
        " them: the stage, why, what to change, and how much faster it will be. Nothing is asked of the process, so it"
        f" may hang or hold the GIL. The exit status tells the kind: 0 for no limit in the loader, {statuses}.",
    )
    add = why.add_argument
    add("pid", type=_count, nargs="?", metavar="PID", help=_PROCESS_OF_JOB)
    add("--pipeline", type=int, metavar="N", help="only the pipeline with this number (see `spdl ps`)")
    add("--seconds", type=_duration, default=1.2, metavar="S", help="how long to watch (default: %(default)s)")
    # A flag, since `--try PID` would otherwise be a number of seconds.
    attempt = "set the recommended concurrency in the running pipeline for a while, tell the gain, and put it back"
    add("--try", dest="attempt", action="store_true", help=attempt)
    add("--trial-seconds", type=_duration, default=4.0, metavar="S", help="how long --try takes (default: %(default)g)")
    add("--json", action="store_true", help="print the verdict in JSON")

    stack = commands.add_parser(
        "stack",
        help="show where the threads of one of your programs' pipelines are",
        description="Show which stage and which item each thread of a process's pipelines is at, since when, and its"
        " stack: by py-spy if it is installed, otherwise by a signal, if the process has called"
        " `spdl.observe.enable_stacks()` or has SPDL_STACKS=1 in its environment. The exit status is 0, or 3 without"
        " stacks; everything else is still shown.",
    )
    stack.add_argument("pid", type=_count, nargs="?", metavar="PID", help=_PROCESS_OF_JOB)
    stack.add_argument("--json", action="store_true", help="print all of it in JSON")


def _add_json(parser: argparse.ArgumentParser, more: str = "") -> None:
    what = f"write every figure to this file; - is standard output{more}"
    parser.add_argument("--json", type=Path, metavar="FILE", help=what)


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        # Looking up the version opens the distribution's metadata, so it is done only for --version.
        import spdl  # noqa: PLC0415

        print(f"spdl-turbo {spdl.__version__}")
        parser.exit()


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _duration_or_0(text: str) -> float:
    return 0.0 if text == "0" else _duration(text)


@contextmanager
def _termination_unwinds() -> Iterator[None]:
    # By default SIGTERM ends the process on the spot, with the cursor hidden and the comparison's loaders running.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(signum: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

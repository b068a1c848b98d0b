"""The pipelines that the user names by a process."""

from __future__ import annotations

import os
import shlex
from time import monotonic, sleep
from typing import TYPE_CHECKING

from spdl._program import program_name
from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._common.text import printable, shortened
from spdl.observe import find_pipelines
from spdl.pipeline._metrics.page_folder import is_private, page_folder
from spdl.pipeline._metrics.process_identity import started_ticks

if TYPE_CHECKING:
    from spdl.observe import ObservedPipeline

__all__ = ["COMMAND_WIDTH", "chosen", "command_of", "process_of", "rank_of", "why_none"]

# A process without a pipeline is looked at for so long, and so often.
_SECONDS, _AGAIN = 1.0, 0.02
# So many processes are named to choose from.
_MOST_NAMED = 8
COMMAND_WIDTH = 40
"""The most columns that the command of a process takes among other things."""


def chosen(pid: int | None) -> list[ObservedPipeline]:
    """Return the pipelines of a process, or of all processes of the user if it is None.

    Raises:
        CommandError: There is none.
    """
    deadline = monotonic() + (_SECONDS if pid is not None and started_ticks(pid) else 0.0)
    # It may be between two epochs, each of which has a pipeline of its own.
    while not (pipelines := find_pipelines(pid)) and monotonic() < deadline:
        sleep(_AGAIN)
    if pipelines:
        return pipelines
    none = "no process of yours on this machine runs a pipeline" if pid is None else f"process {pid} runs no pipeline"
    raise CommandError(
        f"{none}. A pipeline is seen from its start to its end, unless SPDL_OBSERVE=0 is set there;"
        f" `spdl ps` lists all.{why_none()}",
        exit_status=FAILED,
    )


def why_none() -> str:
    """Return why no pipeline can be seen, whatever runs; empty if nothing is in the way."""
    folder = page_folder()
    if is_private(folder) or not os.path.lexists(folder):
        return ""
    return f" None can be seen: {printable(str(folder))} has to be a folder of yours that nobody else may open."


def process_of(pid: int | None) -> int:
    """Return the number of the process that the user names, or else of the only one that runs a pipeline.

    Raises:
        CommandError: There is none, or there are several to choose from.
    """
    if pid is not None:
        return pid
    found = {pipeline.head.pid: pipeline for pipeline in chosen(None) if pipeline.state() == "running"}
    if len(found) == 1:
        return min(found)
    if not found:
        raise CommandError("no process of yours on this machine runs a pipeline now", exit_status=FAILED)
    pids = sorted(found)[:_MOST_NAMED]
    commands = shortened([command_of(found[each]) for each in pids], COMMAND_WIDTH)
    named = [f"{each} ({command})" for each, command in zip(pids, commands, strict=True)]
    raise CommandError(f"{len(found)} processes run pipelines, so name one: {', '.join(named)}; `spdl ps` lists all")


def rank_of(pipeline: ObservedPipeline) -> str:
    """Return the rank of a pipeline's process in its job; empty if its launcher has not told any."""
    ranks = pipeline.head.ranks
    return ranks.get("RANK", ranks.get("LOCAL_RANK", ""))


def command_of(pipeline: ObservedPipeline) -> str:
    """Return the command line of a pipeline's process, without the folder of its program, as one types it in a shell.

    If it has several words, those with a space in them are quoted. The lines of a program behind `-c` follow each
    other.
    """
    words = pipeline.head.command
    program, arguments = program_name(words), list(words[1:])
    if words[:1] == ("-m",):
        del arguments[:1]
    elif words[:1] == ("-c",):
        arguments[:1] = [" ".join(code.split()) for code in arguments[:1]]
    elif arguments:
        program = _quoted(program)
    return " ".join([program, *map(_quoted, arguments)])


def _quoted(word: str) -> str:
    if word and not any(map(str.isspace, word)):
        return word
    # Code often has single quotes in it.
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)

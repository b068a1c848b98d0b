"""What the process of a pipeline is called."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from spdl._program import program_name

if TYPE_CHECKING:
    from spdl.observe import ObservedPipeline

__all__ = ["COMMAND_WIDTH", "command_of", "place_of", "rank_of"]

COMMAND_WIDTH = 40
"""The most columns that the command of a process takes among other things."""


def rank_of(pipeline: ObservedPipeline) -> str:
    """Return the rank of a pipeline's process in its job; empty if its launcher has not told any."""
    ranks = pipeline.head.ranks
    return ranks.get("RANK", ranks.get("LOCAL_RANK", ""))


def place_of(pipeline: ObservedPipeline) -> tuple[int, int, int]:
    """Return what the pipelines of a job are sorted by: the ranks in their order."""
    rank = rank_of(pipeline)
    return int(rank) if rank.isdecimal() else -1, pipeline.head.pid, pipeline.head.pipeline


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

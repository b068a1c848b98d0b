"""The program that this process runs, as its user knows it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

# The interpreter's options with a value, which stands in the same word or is the next one.
_WITH_VALUE = "WX"
_LONG_WITH_VALUE = ("--check-hash-based-pycs",)
# Those that end its options: what follows is the program's.
_RUNS = "cm"
# How `multiprocessing` begins a process that is not a copy of its parent.
_OF_MULTIPROCESSING = "from multiprocessing."


def command_words() -> list[str]:
    """Return the words of the command after the interpreter and its options, or the title of the process.

    The words begin with the path of a script, or with `-m` and a module, or with `-c` and code; there are none if the
    interpreter reads from a terminal. In a process that `multiprocessing` began they are the words of its parent.

    A worker of Ray, for example, has a command that says nothing, and calls itself by the name of its actor.
    """
    try:
        shown = Path("/proc/self/cmdline").read_bytes().strip(b"\0 ")
    except OSError:
        shown = b""
    words = [os.fsencode(word) for word in sys.orig_argv]
    # The interpreter may have been found under another path.
    if shown and words[1:] and not shown.endswith(b"\0".join(words[1:]).strip(b"\0 ")):
        return [shown.partition(b"\0")[0].decode(errors="replace")]
    found = _behind_options(sys.orig_argv[1:])
    if found[:1] == ["-c"] and "".join(found[1:2]).startswith(_OF_MULTIPROCESSING):
        return list(sys.argv)
    return found


def program_name(words: Sequence[str]) -> str:
    """Return the name of the program of a command, such as `train.py`, `-m package.train` or `-c`.

    Args:
        words: What `command_words` has returned, here or in another process.
    """
    if not words:
        return "python"
    if words[0] == "-m":
        return " ".join(words[:2])
    # A path such as `.` has no name.
    return PurePath(words[0]).name or words[0]


def _behind_options(words: Sequence[str]) -> list[str]:
    """Return the words after the interpreter's options, with `-m` or `-c` as separate words."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            break
        if word in _LONG_WITH_VALUE:
            index += 1
        elif word.startswith("--"):
            continue
        elif word == "-" or not word.startswith("-"):
            return [word, *words[index:]]
        else:
            # Several options may share one word, and the last one may have a value: `-um package.module`.
            place = next((place for place, letter in enumerate(word) if letter in _WITH_VALUE + _RUNS), None)
            if place is None:
                continue
            value = word[place + 1 :]
            if word[place] in _RUNS:
                return [f"-{word[place]}", *([value] if value else []), *words[index:]]
            index += not value
    return list(words[index:])

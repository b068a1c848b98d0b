"""What programs are about: the chance of each feature, for each kind of programs."""

from collections.abc import Mapping
from random import Random
from typing import TypeAlias

Theme: TypeAlias = Mapping[str, float]

# Everything at once would hide one thing behind the other, so most programs have a few of these.
ANY: Theme = {
    "continuous": 0.25, "merge": 0.2, "async": 0.4, "generator": 0.35, "thread": 0.2, "process": 0.07, "batch": 0.4,
    "fork": 0.3, "fail": 0.4, "limit": 0.2, "fatal": 0.04, "ordered": 0.4, "retry": 0.2, "timeout": 0.06,
    "sleep": 0.4, "drop": 0.3, "on_failure": 0.2, "queue": 0.08, "hooks": 0.08, "meddle": 0.25, "bad source": 0.08,
    "mixed": 0.25, "own merge": 0.15, "bad epoch": 0.1,
}  # fmt: skip

# They mostly wait, so that it shows who waits for what, and for how long.
PACED: Theme = {
    "pace": 1.0, "merge": 0.35, "async": 0.45, "generator": 0.35, "thread": 0.3, "batch": 0.25, "fork": 0.05,
    "fail": 0.25, "ordered": 0.5, "retry": 0.3, "sleep": 1.0, "drop": 0.3, "on_failure": 0.1, "meddle": 0.3,
    "bad source": 0.05, "fatal": 0.04,
}  # fmt: skip

# They have many items, of which many fail.
MANY: Theme = {
    "many": 1.0, "continuous": 0.1, "async": 0.2, "thread": 0.1, "batch": 0.1, "fail": 0.9, "limit": 0.8, "retry": 0.1,
    "drop": 0.1, "ordered": 0.2, "on_failure": 0.1,
}  # fmt: skip

# Their ops take too long.
TIMED: Theme = {
    "timeout": 1.0, "overdue": 1.0, "async": 0.85, "generator": 0.6, "thread": 0.15, "batch": 0.1, "ordered": 0.3,
    "retry": 0.2, "fail": 0.2, "sleep": 0.5, "drop": 0.2, "meddle": 0.2, "continuous": 0.15, "merge": 0.1,
}  # fmt: skip

# Code of the program's own runs between their stages, and around their tasks.
HOOKED: Theme = {
    "hooks": 1.0, "async": 0.5, "generator": 0.7, "batch": 0.4, "sleep": 0.7, "drop": 0.2, "ordered": 0.3,
    "thread": 0.15, "meddle": 0.4, "fail": 0.2, "retry": 0.2, "timeout": 0.15,
}  # fmt: skip
QUEUED: Theme = {
    "queue": 1.0, "continuous": 0.4, "async": 0.4, "generator": 0.2, "batch": 0.2, "sleep": 0.4, "drop": 0.2,
    "fail": 0.3, "ordered": 0.3, "meddle": 0.2, "bad source": 0.1,
}  # fmt: skip
MERGED: Theme = {
    "merge": 1.0, "own merge": 0.6, "continuous": 0.6, "async": 0.4, "generator": 0.2, "sleep": 0.5, "drop": 0.2,
    "fail": 0.2, "ordered": 0.2, "meddle": 0.2, "bad source": 0.6,
}  # fmt: skip

# They are stopped at any moment.
STOPPED: Theme = {
    "meddle": 1.0, "stop": 1.0, "async": 0.6, "generator": 0.5, "mixed": 0.2, "batch": 0.2, "hooks": 0.2, "queue": 0.1,
    "timeout": 0.2, "sleep": 0.3, "fail": 0.3, "drop": 0.2, "ordered": 0.2, "continuous": 0.3, "merge": 0.2,
    "thread": 0.1, "late loop": 0.25,
}  # fmt: skip

# Their stages share a pool, or go to processes.
POOLED: Theme = {
    "pace": 0.7, "ranked": 0.6, "process": 0.4, "thread": 0.5, "sleep": 1.0, "fail": 0.2, "drop": 0.2, "generator": 0.6,
    "ordered": 0.1, "retry": 0.1, "meddle": 0.1, "async": 0.3, "batch": 0.15, "busy pools": 0.3, "long": 0.6,
}  # fmt: skip

# Their stages have few threads, or more than they need, and wait for each other.
SCARCE: Theme = {
    "pace": 1.0, "scarce": 1.0, "long": 1.0, "async": 0.5, "thread": 0.3, "in turns": 0.5, "batch": 0.3, "sleep": 1.0,
    "ordered": 0.2, "drop": 0.1, "busy pools": 0.1,
}  # fmt: skip
AMPLE: Theme = {
    "pace": 1.0, "ample": 1.0, "long": 0.6, "async": 0.3, "thread": 0.2, "sleep": 1.0, "ordered": 0.5, "drop": 0.2,
    "fail": 0.1, "retry": 0.1,
}  # fmt: skip

# Their ops are now this and now that, and their results stay in order.
VARIED: Theme = {
    "pace": 0.8, "ample": 0.8, "mixed": 1.0, "ordered": 1.0, "sleep": 1.0, "async": 0.3, "drop": 0.2, "fail": 0.2,
    "meddle": 0.1,
}  # fmt: skip

# They end with batches, of which the last one may be dropped, or with a pool that is shut down.
ENDING: Theme = {
    "drops last": 0.6, "thread": 0.5, "busy pools": 1.0, "async": 0.3, "generator": 0.2, "sleep": 0.7, "pace": 0.3,
    "ordered": 0.2, "drop": 0.1,
}  # fmt: skip

# Their consumers are interrupted, and go on, or are slower than they are.
READ: Theme = {
    "interrupted": 0.75, "continuous": 0.8, "async": 0.2, "generator": 0.2, "batch": 0.2, "drop": 0.2, "fail": 0.2,
    "ordered": 0.2, "merge": 0.1,
}  # fmt: skip
DRAINED: Theme = {
    "slow reader": 1.0, "pace": 0.7, "async": 0.5, "generator": 0.2, "thread": 0.2, "ordered": 0.3, "sleep": 0.3,
    "drop": 0.1, "continuous": 0.1,
}  # fmt: skip

_THEMES = (
    ANY, PACED, MANY, TIMED, HOOKED, QUEUED, MERGED, STOPPED, POOLED, SCARCE, AMPLE, VARIED, ENDING, READ, DRAINED,
)  # fmt: skip
# How often each of them is drawn, and how often for short programs.
_WEIGHTS = (16, 13, 5, 12, 8, 5, 9, 6, 9, 9, 4, 6, 3, 5, 3)
_SHORT_WEIGHTS = (2, 3, 0, 8, 4, 1, 1, 8, 4, 4, 4, 6, 4, 12, 3)


def draw_theme(random: Random, *, short: bool) -> Theme:
    """Return one of the themes."""
    return random.choices(_THEMES, _SHORT_WEIGHTS if short else _WEIGHTS)[0]

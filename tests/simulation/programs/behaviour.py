"""What an op does with an item: a function of the op's seed and the item's identity alone.

The ops of a program and the model of it both ask here, so the model knows what each op will do with each item,
whatever the order in which they come.
"""

from dataclasses import dataclass, replace
from typing import Literal
from zlib import crc32

from .item import Key
from .program import Aggregate, Fork, Op, Source

# How many times as long an uneven op may sleep.
_LONGEST = 3
# The percentage of tasks that a hook cancels, if it cancels any.
_CANCELLED = 15


@dataclass(frozen=True)
class Outcome:
    """What an op does with an item.

    Attributes:
        results: How many results it has.
        end: How it ends after that: it returns, drops the item by None, raises an `Exception` or a `BaseException`.
        failing_attempts: How many attempts raise before one does not.
        seconds: How long it sleeps.
        slow: Whether it exceeds the timeout.
        edge: Whether it takes as long as the timeout.
        generates: Whether the results are a generator's.
    """

    results: int = 1
    end: Literal["ok", "none", "error", "fatal"] = "ok"
    failing_attempts: int = 0
    seconds: float = 0.0
    slow: bool = False
    edge: bool = False
    generates: bool = False


def _identity(key: Key) -> str:
    # Only forks in the trail count, so that a program still does the same with an item after a stage is taken away.
    source, position, trail = key
    return f"{source}.{position}{''.join(step.partition('.')[2] for step in trail)}"


def _roll(seed: int, what: str, keys: tuple[Key, ...], sides: int = 100) -> int:
    return crc32(f"{seed} {what} {' '.join(sorted(map(_identity, keys)))}".encode()) % sides


def decide(op: Op, keys: tuple[Key, ...], *, batch: bool) -> Outcome:
    """Return what an op does with an item, or with a batch of these elements."""
    asleep = _roll(op.seed, "sleep", keys) < op.sleep and (op.by_batch or not batch)
    seconds = op.sleep_seconds if asleep else 0.0
    if op.uneven:
        seconds *= 1 + _roll(op.seed, "long", keys, _LONGEST)
    generates = op.is_generator
    if batch and not op.by_batch:
        # The composition of the batches may be unknown, so all have the same fate.
        generates = generates and not (op.is_mixed and op.seed % 2)
        if op.fail >= 100:
            return Outcome(0, "error", 1 << 30, seconds, generates=generates)
        return Outcome(1 + op.seed % op.fan if generates else 1, "ok", 0, seconds, generates=generates)
    if not keys:
        return Outcome(generates=generates)
    generates = generates and not (op.is_mixed and _roll(op.seed, "form", keys, 2))
    slow = _roll(op.seed, "slow", keys) < op.slow
    edge = not slow and _roll(op.seed, "edge", keys) < op.edge
    results = 1 + _roll(op.seed, "fan", keys, op.fan) if generates else 1
    fate = _roll(op.seed, "fate", keys)
    fates = (
        (op.fatal, Outcome(0, "fatal", 1 << 30)),
        (op.fail, Outcome(0, "error", 1 << 30)),
        (op.flaky, Outcome(results, "ok", op.flaky_times)),
        (op.midway if generates else 0, Outcome(results, "error", 0)),
        (op.drop, Outcome(0, "ok" if generates else "none", 0)),
    )
    chosen = Outcome(results)
    for share, outcome in fates:
        if fate < share:
            chosen = outcome
            break
        fate -= share
    return replace(chosen, seconds=seconds, slow=slow, edge=edge, generates=generates)


def keeps(op: Op, key: Key) -> bool:
    """Return whether an op that treats all batches alike keeps an element."""
    return op.by_batch or _roll(op.seed, "fate", (key,)) >= op.drop


def hook_cancels(stage: str, keys: tuple[Key, ...]) -> bool:
    """Return whether a hook cancels the task of an item."""
    return bool(keys) and _roll(len(stage), "cancel", keys) < _CANCELLED


def step_of(name: str, number: int, op: Op) -> str:
    """Return what an op adds to the trail of its result of this number."""
    return f"{name}.{number}" if op.is_generator else name


def path_of(fork: Fork, keys: tuple[Key, ...]) -> int:
    """Return the path of an item, or of an element of a batch."""
    return _roll(fork.seed, "path", keys, len(fork.paths))


def ends_batch(aggregate: Aggregate, size: int, key: Key) -> bool:
    """Return whether a batch of this size, of which this is the last item, is complete."""
    if aggregate.seed:
        return _roll(aggregate.seed, "end", (key,), aggregate.n) == 0
    return size >= aggregate.n


def is_unsendable(source: Source, number: int, position: int) -> bool:
    """Return whether an item cannot be sent to another process."""
    return _roll(1, "send", ((number, position, ()),)) < source.unsendable


def source_sleeps(source: Source, number: int, position: int) -> bool:
    """Return whether a source sleeps before an item."""
    return _roll(0, "source", ((number, position, ()),)) < source.sleep

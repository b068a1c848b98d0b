"""What passes between the stages of a program, what they count, and what the whole may do, as far as it is promised."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from .item import Key

# After so many items a queue or a hook of the program is at fault.
RAISE_AFTER = 5

Batch: TypeAlias = tuple[Key, ...]
Root: TypeAlias = tuple[int, int]

# A record of a failure: the stage, the places in the sources (None if they are not known), and how often it was tried
# (0 if that is not known).
FailureKey: TypeAlias = tuple[str, frozenset[Root] | None, int]


@dataclass
class Flow:
    """What passes between two stages in an epoch.

    Attributes:
        singles: The items; or, if batches pass whose composition is not promised, their elements.
        batches: The batches that are promised, or None.
        in_batches: Whether batches pass.
        order: What order is promised: ``"all"``, ``"source"`` (of the items of each source) or ``""``.
        inner: Whether the order in the batches is promised.
        missing: At most so many of the singles are not there.
        count: How many batches pass, if that is known.
        unknown: Whether nothing is known but where items come from.
    """

    singles: list[Key] = field(default_factory=list)
    batches: list[Batch] | None = None
    in_batches: bool = False
    order: str = "all"
    inner: bool = True
    missing: int = 0
    count: int | None = None
    unknown: bool = False

    @property
    def size(self) -> int | None:
        """How many objects pass, if that is known."""
        if self.unknown or self.missing:
            return self.count
        if not self.in_batches:
            return len(self.singles)
        return self.count if self.batches is None else len(self.batches)

    @property
    def elements(self) -> list[Key]:
        """The items, in whatever batches they are."""
        return self.singles if self.batches is None else [key for batch in self.batches for key in batch]


@dataclass
class Tally:
    """What a stage counts in an epoch. ``exact`` is False if that is not known."""

    exact: bool = True
    tried: int = 0
    completed: int = 0
    emitted: int = 0
    failed: int = 0
    dropped: int = 0
    retried: int = 0
    overdue: int = 0


@dataclass
class Expected:
    """What a program may do.

    Attributes:
        flow: What comes out in each epoch.
        tallies: What each stage with an op counts in each epoch.
        failures: The items that fail in each epoch.
        failures_known: Whether these are all.
        overdue_known: Whether only ops that are meant to exceed their timeouts do so.
        must_fail: Why the pipeline has to fail if it is read to the end.
        may_fail: Why it may fail.
        uncertain: Why items may be missing although the pipeline does not fail.
    """

    flow: Flow
    tallies: dict[str, Tally]
    failures: Counter[FailureKey]
    failures_known: bool = True
    overdue_known: bool = True
    must_fail: list[str] = field(default_factory=list)
    may_fail: list[str] = field(default_factory=list)
    uncertain: list[str] = field(default_factory=list)


def merge_flows(flows: list[Flow]) -> Flow:
    """Return what comes out where several flows come together."""
    if len(flows) == 1:
        return flows[0]
    if any(flow.unknown for flow in flows) or len({flow.in_batches for flow in flows}) > 1:
        return Flow([key for flow in flows for key in flow.elements], unknown=True, order="")
    order = "source" if all(flow.order == "all" for flow in flows) else ""
    missing = sum(flow.missing for flow in flows)
    inner = all(flow.inner for flow in flows)
    if not flows[0].in_batches:
        return Flow([key for flow in flows for key in flow.singles], order=order, missing=missing)
    batches: list[Batch] | None = []
    counts = [flow.size for flow in flows]
    count = None if None in counts else sum(size for size in counts if size is not None)
    for flow in flows:
        batches = None if batches is None or flow.batches is None else [*batches, *flow.batches]
    singles = [] if batches is not None else [key for flow in flows for key in flow.elements]
    return Flow(singles, batches, in_batches=True, order=order, inner=inner, missing=missing, count=count)

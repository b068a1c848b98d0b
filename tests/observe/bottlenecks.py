"""The planted bottlenecks: what `spdl why` has to say of each script, and how each is mended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BOTTLENECKS", "PLANTED", "Bottleneck"]

PLANTED = Path(__file__).parent / "planted"


class Bottleneck(NamedTuple):
    """A bottleneck, planted in the script of its name.

    Attributes:
        stage: The stage that limits the script; empty if it is none.
        kind: The kind of the verdict.
        settings: The numbers of the remedy that the script takes as arguments, by their names in the verdict.
        arguments: The script's arguments that apply a remedy which is no number.
        computes: Whether other programs on the machine change what limits it.
        no_prediction: Why the verdict predicts no gain; empty if it does.
        no_gain: Why no gain can be measured; empty if one can.
    """

    stage: str
    kind: str
    settings: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    computes: bool = False
    no_prediction: str = ""
    no_gain: str = ""

    def remedied(self, verdict: Mapping[str, Any]) -> list[str]:
        """Return the arguments with which the script does what a verdict recommends."""
        named = [str(verdict["settings"][name]) for name in self.settings if name in verdict["settings"]]
        return named or list(self.arguments)


BOTTLENECKS = {
    "gil": Bottleneck("parse", "GIL", ("processes", "concurrency"), computes=True),
    "cpu": Bottleneck("compress", "CPU", ("concurrency",), computes=True),
    "oversubscription": Bottleneck(
        "filter",
        "oversubscription",
        ("concurrency", "threads_per_op"),
        computes=True,
        no_prediction="the cores are in use either way, and what the fight for them costs is not seen from outside",
    ),
    "io": Bottleneck("fetch", "I/O", ("concurrency", "num_threads")),
    "lock": Bottleneck(
        "look_up",
        "lock",
        arguments=("8",),
        no_prediction="how many threads could go on at once without the lock is not seen from outside",
    ),
    "lock_computing": Bottleneck(
        "compress",
        "lock",
        arguments=("4",),
        computes=True,
        no_prediction="how many threads could go on at once without the lock is not seen from outside",
    ),
    "serial_source": Bottleneck("src", "serial source", ("concurrency",)),
    "ordered": Bottleneck("fetch", "held back by order", arguments=("1",)),
    # It says that a faster loader gains nothing, so that is what is tried.
    "slow_consumer": Bottleneck("", "slow consumer", arguments=("8",)),
    "batching": Bottleneck("collate", "batching", ("concurrency", "num_threads")),
    "transfer": Bottleneck("transfer_to_device", "transfer", ("concurrency", "num_threads")),
    "pickling": Bottleneck(
        "region(parse)",
        "pickling",
        arguments=("1",),
        computes=True,
        no_prediction="how much less there can be to pickle is not seen from outside",
    ),
    "memory_budget": Bottleneck("read", "memory budget", ("max_bytes",)),
    "retries": Bottleneck("ask", "retries", arguments=("0",)),
    "hang": Bottleneck("write", "hang", no_gain="nothing moves before it is repaired"),
}

"""The position of a loader: written to a checkpoint, and read from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from spdl._cores import cores_per_process
from spdl._ranges import Ranges
from spdl._sealed import check_state, sealed
from spdl.dataloader._loader.failures import FailureRecord
from spdl.source import MixedOrder
from spdl.source._shared import (
    EMPTY,
    EpochState,
    Sharing,
    continue_mix,
    find_in_torch,
    find_rank,
    fingerprint,
    progress_of,
)

Cursor: TypeAlias = dict[str, Any] | None
"""The state's content apart from the position; see `LoaderProgress`."""


class World(NamedTuple):
    rank: int
    size: int


def find_world(rank: int | None, world_size: int | None) -> World:
    return World(*find_rank(rank, world_size))


def may_find_world() -> bool:
    """Return whether `find_world` can say more than that the environment has only half of what it should.

    A launcher such as the one in Lightning's Trainer sets WORLD_SIZE and no RANK, and torch.distributed will know both
    when the loader is used.
    """
    return ("RANK" in os.environ) == ("WORLD_SIZE" in os.environ) or find_in_torch() is not None


def default_threads() -> int:
    return max(1, int(cores_per_process() + 0.5))


def identify(source: Any) -> str:
    """Return a short text of a source, the same for the same samples in the same order as far as that is known.

    Of a list or tuple it looks at 1,024 samples, spread evenly: at paths, numbers and bytes. Of other objects, only
    the type counts.
    """
    if type(source) in (list, tuple):
        return fingerprint(type(source).__name__, len(source), lambda index: _describe(source[index]))
    own = getattr(source, "fingerprint", None)
    return str(own()) if callable(own) else f"{type(source).__name__}:{len(source)}"


# So many parts of a sample, and bytes of a file, are looked at.
_PARTS = 16
_BYTES = 4096


def _describe(item: Any) -> str:
    if isinstance(item, str | os.PathLike):
        return repr(os.fspath(item))
    if item is None or isinstance(item, Number):
        return str(item)
    if isinstance(item, bytes | bytearray):
        return f"{len(item)} bytes {crc32(item[:_BYTES]):08x} {crc32(item[-_BYTES:]):08x}"
    if isinstance(item, tuple | list) and len(item) <= _PARTS:
        return f"({', '.join(map(_describe, item))})"
    if isinstance(item, Mapping) and len(item) <= _PARTS:
        return f"{{{', '.join(f'{_describe(name)}: {_describe(value)}' for name, value in item.items())}}}"
    return type(item).__name__


class LoaderProgress(NamedTuple):
    epoch: int = 0
    position: int = 0
    """The places of the epoch's order that all ranks have received."""
    begun: bool = False
    """Whether a loop over this epoch was begun, so that the next loop is about the next epoch."""
    failures: FailureRecord = FailureRecord()
    """What has failed until then, of what was received, in this epoch and before."""
    cursor: Cursor = None
    """The rest that a loader needs if the lengths of its samples are not known in advance."""
    ahead: World | None = None
    """The rank, if it came here with fewer batches than others, which may not have received theirs: it has ended the
    epoch before with one less, or all samples of one failed."""


class Identity(NamedTuple):
    """The dataset and order of a state: if one of these differs, a position means other samples."""

    fingerprint: str
    order: str
    size: int
    seed: int


def write_state(
    progress: LoaderProgress, kind: str, identity: Identity, mix: MixedOrder | None = None
) -> dict[str, Any]:
    written = {
        **identity._asdict(),
        "epoch": progress.epoch,
        "position": progress.position,
        "failures": progress.failures.pack(),
    }
    if progress.cursor is not None:
        written["cursor"] = progress.cursor
    if progress.ahead is not None:
        written["ended_by"] = list(progress.ahead)
    if mix is not None:
        written["mix"] = progress_of(mix, progress.epoch, progress.position).write()
    return sealed(kind, written)


def open_state(state: object, kind: str) -> dict[str, Any]:
    """Return what is in a state, or raise if it is not one of such a loader, or was damaged."""
    if isinstance(state, Mapping):
        state = dict(state)
    check_state("state_dict", state, kind)
    assert isinstance(state, dict)
    return state


def read_state(state: dict[str, Any], kind: str, identity: Identity, remedy: str = "") -> LoaderProgress:
    """Return the progress that an opened state records, or raise if it is not over the same data.

    The remedy is a sentence to add to an error about another order.
    """
    for name, own in identity._asdict().items():
        if state[name] != own:
            raise ValueError(_say_differs(kind, name, state[name], own) + remedy * (name != "fingerprint"))
    ahead = state.get("ended_by")
    return LoaderProgress(
        state["epoch"],
        state["position"],
        failures=FailureRecord.unpack(state["failures"]),
        cursor=state.get("cursor"),
        ahead=None if ahead is None else World(*ahead),
    )


def continue_stage(
    order: MixedOrder, state: dict[str, Any], identity: Identity, leave: Callable[[Cursor], Cursor]
) -> tuple[MixedOrder, dict[str, Any], Identity]:
    """Return a mix as an opened state, of this stage or an earlier one, lets it continue; the state and identity of it.

    `leave` makes the cursor of the next epoch.

    Raises:
        ValueError: If the mix cannot continue exactly.
    """
    position = state["position"]
    delivered = Ranges([(0, position)]) if position else EMPTY
    found = EpochState(
        state["order"],
        state["size"],
        state["epoch"],
        Sharing(1, 1, drop_last=False, even_batches=True),
        None,
        delivered,
        EMPTY,
        others_behind="ended_by" in state,
        mix=state["mix"],
    )
    mix, following = continue_mix(order, found, "")
    identity = identity._replace(order=mix.fingerprint, size=len(mix))
    if following is found:
        return mix, state, identity
    cursor = leave(state.get("cursor"))
    begin = {"order": mix.fingerprint, "size": len(mix), "epoch": 0, "position": 0, "cursor": cursor}
    sizes = [phases[-1][0] for phases in state["mix"]["phases"]]
    if len(sizes) < len(mix.parts) or sum(sizes) < mix.num_items:
        # The data have grown. What the parts were made of shows whether the earlier ones are the same.
        begin["fingerprint"] = identity.fingerprint
    return mix, {**state, **begin}, identity


def _say_differs(kind: str, name: str, stored: object, own: object) -> str:
    if name == "fingerprint":
        return (
            f"This state belongs to another dataset: its fingerprint is {stored!r}, and that of the source of this "
            f"{kind} is {own!r}. Restore with the dataset that it was saved with, or begin the epoch anew: set_epoch()."
        )
    return (
        f"This state was saved with {name}={stored!r}, and this loader has {name}={own!r}, so a position would mean "
        "other samples. Make the loader as the one was that saved the state. (rank, world_size, batch_size and the "
        "number of threads may differ.)"
    )

"""From a stage of a mix to the next one."""

from __future__ import annotations

from typing import NoReturn

from spdl.source._orders import stages
from spdl.source._orders.mixed import MixedOrder
from spdl.source._orders.shares import EMPTY
from spdl.source._samplers.epoch_state import EpochState, delivered_by_all


def continue_mix(order: MixedOrder, state: EpochState, data: str) -> tuple[MixedOrder, EpochState]:
    """Return a mix as a state lets it go on, and how far it is.

    Args:
        order: The mix that the sampler was given.
        state: A state of this mix or of an earlier stage.
        data: The end of the sampler's fingerprint, which names the data.

    Raises:
        ValueError: If the state is of a later stage, or this one cannot go on exactly from an earlier one.
    """
    assert state.mix is not None
    try:
        saved = stages.MixProgress.read(state.mix)
    except ValueError as error:
        _refuse(str(error))
    if saved.stage == order.stage:
        return stages.begun(order, saved), state
    if saved.stage > order.stage:
        _refuse(f"it is of stage {saved.stage}, and this mix is stage {order.stage}. Pass stage={saved.stage}")
    try:
        former = stages.former(order, saved)
    except ValueError as error:
        _refuse(str(error))
    before = state.fingerprint.removeprefix(former.fingerprint)
    has_grown = len(former.parts) < len(order.parts) or former.num_items < order.num_items
    is_named = not before or before.startswith(" of data ")
    if before == state.fingerprint or len(former) != state.size or not (before == data or (has_grown and is_named)):
        _refuse(
            f"it is of {state.fingerprint}, and with the corpora and the seed of this mix that stage would be of "
            f"{former.fingerprint}{data}"
        )
    delivered = delivered_by_all(state)
    in_order = len(state.received) == state.received.watermark or state.sharing.world_size == 1
    if state.others_behind or not in_order or len(delivered) != delivered.watermark:
        _refuse(
            "it does not say that all ranks have received the same whole steps, so items that were drawn would come "
            "again or be left out. Save it after a step of all ranks, or load what merge_states() makes of the states "
            "of all ranks"
        )
    mix = stages.after(order, former, state.epoch, len(delivered))
    return mix, EpochState(mix.fingerprint + data, len(mix), 0, state.sharing, None, EMPTY, EMPTY)


def _refuse(reason: str) -> NoReturn:
    raise ValueError(f"`state` is not one from which this stage of a MixedOrder can go on: {reason}.")

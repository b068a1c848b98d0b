"""Samplers of epochs, item by item and in batches, which resume at any item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from spdl._check import check_flag, check_int, check_str, positive, refuse
from spdl._ranges import Ranges
from spdl.source._orders import mix_stages
from spdl.source._orders.mixed import MixedOrder
from spdl.source._orders.order import LARGEST, EpochOrder, SequentialOrder, ShuffledOrder, makes_batches
from spdl.source._orders.shares import EMPTY, Plan, Sharing
from spdl.source._samplers.distributed import find_rank, warn_of_idle_rank
from spdl.source._samplers.epoch_state import (
    EpochState,
    SamplerPasses,
    delivered_by_all,
    merge_states,
    pass_of_state,
    read_state,
    to_places,
)


class EpochSampler:
    """The indices that one rank takes in each epoch, in an order that can be cut anywhere and continued anywhere.

    Which index comes when is a pure function of the order, the epoch and the number of the step. Nothing is stored, so
    an epoch of a billion items begins at once, and so does one that is resumed in its middle.

    **Sharing.** In step s, rank r of W takes the B items from position ``(s*W + r) * B`` of the epoch's order on, where
    B is `batch_size`. So the first s steps of all ranks are the first ``s*W*B`` items of the order, which are the same
    for every W and B with the same product. All ranks yield the same number of batches: it depends only on the number
    of items, W, B and `drop_last`. If fewer than ``W*B`` items are left for the last step, the ranks share them evenly,
    so the last batches are shorter. If there are fewer than W, some ranks repeat one item of another.

    **Epochs.** The first pass is epoch 0 and each further one is the next epoch; `set_epoch` chooses another. A pass
    begins when its first index is taken.

    **Resuming.** `state_dict` says which items were received. `load_state_dict` makes the next pass yield exactly the
    others. With the same ranks and batch size each rank yields the very sequence that it would have yielded. With other
    ones, all ranks together yield each of the remaining items once; nothing has to be divisible. If all ranks take
    their steps together, the state of any rank will do for all. If they do not, merge their states with
    `merge_states`.

    It can be the ``sampler`` of a PyTorch ``DataLoader``, its `batch_sampler` the ``batch_sampler``, and it is a source
    for `PipelineBuilder.add_source`. A sampler is for one consumer: threads may not iterate it at once.

    Args:
        order: The number of items, or an `EpochOrder`, which says which index comes where.
        batch_size: How many items a rank takes in a step. It decides how the ranks share the items, so pass the batch
            size of the loader. It must be 1 if the order makes the batches, such as `BucketedOrder` with
            ``tokens_per_batch``: then "items" are batches here, and only `batch_sampler` can be iterated.
        shuffle: Whether to yield the items in another random order each epoch (`ShuffledOrder`), or unchanged. Only for
            a number of items.
        seed: The seed of the random order. Only for a number of items.
        drop_last: Whether to leave out the items that do not fill a batch on every rank.
        even_batches: Whether ranks that would have nothing in the last step repeat an item, as above. Otherwise no item
            comes twice, but ranks may yield one batch less than others: for evaluation without collective operations.
        rank: The number of this process; with `world_size`, None asks ``torch.distributed`` if the program has
            initialised it, else takes RANK and WORLD_SIZE from the environment, else is the only rank.
        world_size: How many processes share the items, at most 1,048,576.
        data: A text that names the data, such as a hash of its files' names. A state can only be loaded if it is the
            same.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, if the environment makes no sense, or if `drop_last` leaves nothing.

    Example:
        >>> from spdl.source import EpochSampler
        >>> def make(rank, world_size):
        ...     return EpochSampler(10, batch_size=2, shuffle=False, rank=rank, world_size=world_size)
        >>> [list(make(rank, 2)) for rank in range(2)]
        [[0, 1, 4, 5, 8], [2, 3, 6, 7, 9]]

        After the first step, continue with one rank in place of two:

        >>> sampler = make(0, 2)
        >>> items = iter(sampler)
        >>> next(items), next(items)
        (0, 1)
        >>> alone = make(0, 1)
        >>> alone.load_state_dict(sampler.state_dict())
        >>> list(alone)
        [4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        order: int | EpochOrder,
        /,
        *,
        batch_size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        data: str = "",
    ) -> None:
        self.order = _make_order(order, shuffle=check_flag("shuffle", shuffle), seed=seed)
        self.batch_size = positive("batch_size", batch_size)
        if self.batch_size > 1 and makes_batches(self.order):
            refuse(ValueError, "batch_size", "1 with an order that makes the batches itself", batch_size)
        self.drop_last = check_flag("drop_last", drop_last)
        self.even_batches = check_flag("even_batches", even_batches)
        found_rank = rank is None and world_size is None
        self.rank, self.world_size = find_rank(rank, world_size)
        self.data = check_str("data", data)
        size = len(self.order)
        sharing = Sharing(self.world_size, self.batch_size, self.drop_last, self.even_batches)
        self._plan = Plan(size, EMPTY, sharing)
        if not self._plan.steps:
            step = self.world_size * self.batch_size
            accepted = f"False with {size} items: a step of all ranks takes {step}, so all would be left out"
            refuse(ValueError, "drop_last", accepted, drop_last)
        if not self._plan.count(self.rank):
            remedy = "Take fewer ranks, or leave `even_batches` True, with which it gets one that another rank has too."
            warn_of_idle_rank(self.rank, self.world_size, size, "items", remedy)
        self._passes = SamplerPasses(self.order, self._plan, self.rank, found_rank=found_rank)

    @property
    def fingerprint(self) -> str:
        """The text that ties a state to its order and data."""
        return self.order.fingerprint + self._name_data()

    def _name_data(self) -> str:
        return f" of data {self.data!r}" if self.data else ""

    @property
    def epoch(self) -> int:
        """The epoch of the pass under way, or of the next one if none is."""
        return self._passes.shown.epoch

    @property
    def num_batches(self) -> int:
        """The number of batches of this rank in a whole epoch."""
        return -(-len(self) // self.batch_size)

    @property
    def num_repeats(self) -> int:
        """The number of items at the end of a whole epoch that another rank yields too, 0 or 1."""
        return self._plan.repeats(self.rank)

    @property
    def batch_sampler(self) -> EpochBatchSampler:
        """The same as lists of indices, a list for each step."""
        return EpochBatchSampler(self, self._passes)

    def __len__(self) -> int:
        """Return the number of items of this rank in a whole epoch."""
        return self._plan.count(self.rank)

    def __iter__(self) -> Iterator[int]:
        """Return an iterator that begins the next pass when its first index is taken."""
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[int]:
        """Return an iterator that begins the next pass at a position in it, at once however far it is.

        The pass begins when the first index is taken: some loaders call ``iter`` twice and use one of the two.

        Args:
            position: How many items of the pass to leave out. Those that were received before a state was loaded are
                not part of the pass.

        Returns:
            An iterator.

        Raises:
            TypeError, ValueError: If `position` is not an int of at least 0.
            TypeError: If the order makes batches.
        """
        position = check_int("position", position, least=0)
        if makes_batches(self.order):
            raise TypeError(
                f"The positions of {self.order!r} are batches, so there are no single indices to yield: iterate over "
                "`batch_sampler` of this EpochSampler, which yields the indices of each batch."
            )
        return self._passes.iterate(lambda begun: begun.iterate(position))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass.

        If a loaded state has already chosen it, that pass still leaves out what was received.

        Args:
            epoch: An int of at least 0.

        Raises:
            TypeError, ValueError: If it is no such int.
        """
        self._passes.choose(check_int("epoch", epoch, least=0))

    def state_dict(self) -> dict[str, Any]:
        """Return which items were yielded, as a dict that JSON can hold.

        Between two passes it is the state of the next one, also between ``iter`` and the first index of a pass that
        follows one which was left early. If something reads ahead of the consumer, such as a
        pipeline, items that it holds are yielded and not received: `advance_state` is for the owner of such a reader.
        """
        shown = self._passes.shown
        return shown.state(self.fingerprint, Ranges([(0, shown.taken)]))

    def advance_state(
        self, state: dict[str, Any], received: int, beyond: Iterable[tuple[int, int]] = ()
    ) -> dict[str, Any]:
        """Return the state of a consumer that has received some items of the pass that a state begins.

        A pure function. A reader that is ahead of its consumer calls `state_dict` before it begins a pass, and this
        when it is asked how far the consumer is, or when other ranks continue the pass.

        Args:
            state: What `state_dict` returned before the pass, here or on another rank.
            received: How many items from the beginning of the pass on were received.
            beyond: Ranges of positions in the pass that were also received: the first and the one after the last.

        Returns:
            A new state.

        Raises:
            TypeError, ValueError: If it is not a state of one rank, or the pass has no such positions.

        Example:
            >>> from spdl.source import EpochSampler
            >>> sampler = EpochSampler(6, shuffle=False, rank=0, world_size=1)
            >>> before = sampler.state_dict()
            >>> ahead = list(sampler)
            >>> sampler.load_state_dict(sampler.advance_state(before, 2, [(3, 4)]))
            >>> list(sampler)
            [2, 4, 5]
        """
        read = read_state(state)
        begun = pass_of_state(self.order, read)
        return begun.state(read.fingerprint, to_places(received, beyond, len(begun), "items"), read)

    def next_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of the pass that follows the one that a state begins.

        It is the next epoch's, unless `set_epoch` has chosen another since a pass began. Unlike `state_dict`,
        it does not depend on passes that other iterators have begun since.

        Args:
            state: What `state_dict` returned before the pass.

        Returns:
            A new state.

        Raises:
            TypeError, ValueError: If it is not a state of one rank.

        Example:
            >>> from spdl.source import EpochSampler
            >>> sampler = EpochSampler(6, rank=0, world_size=1)
            >>> sampler.next_state(sampler.state_dict())["epoch"]
            1
        """
        read = read_state(state)
        return self._passes.following(pass_of_state(self.order, read)).state(read.fingerprint, EMPTY, read)

    # The loading of a pipeline's state calls it with the sampler's.
    merge_states = staticmethod(merge_states)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass yield the items that a state does not say were received.

        Args:
            state: What `state_dict` returned in this run or in one with other ranks or another batch size, or what
                `merge_states` made of several. If the order is a stage of a `MixedOrder`, a state of an earlier stage
                will do: then the next pass is a whole one, and `order` knows what was drawn.

        Raises:
            TypeError: If it is not a dict.
            ValueError: If it is the state of other data, of another order, or of a newer version, if something is
                missing, or if it is one rank's state that does not tell what the others have received.
        """
        read = read_state(state)
        order: EpochOrder = self.order
        if read.mix is not None and isinstance(order, MixedOrder):
            order, read = continue_mix(order, read, self._name_data())
        named = order.fingerprint + self._name_data()
        if read.fingerprint != named or read.size != len(order):
            difference = ""
            if (
                read.mix is not None
                and isinstance(order, MixedOrder)
                and not read.fingerprint.startswith(order.fingerprint)
            ):
                difference = mix_stages.say_difference(order, read.mix)
            raise ValueError(
                f"The state is of {read.fingerprint}, and this sampler is of {named}: make it as the one "
                f"that was saved, with the same data, order and seed, or begin the epoch again.{difference}"
            )
        whole = Plan(len(order), EMPTY, self._plan.sharing)
        same_sharing = read.sharing == self._plan.sharing
        if same_sharing and read.rank == self.rank:
            plan, received = read.plan, read.received
        elif read.others_behind:
            raise ValueError(
                f"The state belongs to rank {read.rank} of {read.sharing.world_size} at the end of an epoch in which "
                "other ranks have one batch more, so it does not tell whether they have received it: merge the states "
                "of all ranks with merge_states()."
            )
        elif len(read.received) != read.received.watermark and read.sharing.world_size > 1:
            raise ValueError(
                f"The state belongs to rank {read.rank} of {read.sharing.world_size}, which received items out of "
                "order, so it does not tell what the other ranks received: merge the states of all ranks with "
                "merge_states()."
            )
        elif same_sharing and read.rank is not None:
            # All ranks have taken the same steps.
            plan = read.plan
            received = plan.same_steps(read.rank, len(read.received), self.rank)
        else:
            plan, received = Plan(len(order), delivered_by_all(read), self._plan.sharing), EMPTY
        # The others are as far as their states say.
        others_behind = read.others_behind and read.rank == self.rank
        self.order, self._plan = order, whole
        self._passes.change_order(order, whole)
        self._passes.resume(read.epoch, plan, received, others_behind=others_behind)

    def __repr__(self) -> str:
        return f"EpochSampler({self.order!r}, batch_size={self.batch_size}): rank {self.rank} of {self.world_size}"


def _make_order(order: int | EpochOrder, *, shuffle: bool, seed: int) -> EpochOrder:
    if isinstance(order, EpochOrder):
        if not shuffle or seed:
            refuse(
                ValueError, "order", "a number of items with `shuffle` or `seed`; an order decides both itself", order
            )
        if not len(order):
            refuse(ValueError, "order", "an order of at least one item", order)
        return order
    accepted = "the number of items, an int of at least 1, or an EpochOrder"
    n = check_int("order", order, least=1, most=LARGEST, accepted=accepted)
    return ShuffledOrder(n, seed=seed) if shuffle else SequentialOrder(n)


class EpochBatchSampler:
    """The indices of an `EpochSampler` as lists, a list for each step. It shares the sampler's epoch and state.

    All lists have ``batch_size`` indices, save the last and, if a pass was cut, the first. If the order makes the
    batches, such as `BucketedOrder` with ``tokens_per_batch``, they have as many as it says.
    `EpochSampler.batch_sampler` makes it.

    Example:
        >>> from spdl.source import EpochSampler
        >>> list(EpochSampler(5, batch_size=2, shuffle=False, rank=0, world_size=1).batch_sampler)
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: EpochSampler, passes: SamplerPasses) -> None:
        self.sampler = sampler
        self._passes = passes

    @property
    def batch_size(self) -> int | None:
        """The number of indices of a full batch; None if the order makes batches of varying size."""
        return None if makes_batches(self.sampler.order) else self.sampler.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether items that do not fill a batch on every rank are left out."""
        return self.sampler.drop_last

    def __len__(self) -> int:
        """Return the number of batches of this rank in a whole epoch."""
        return self.sampler.num_batches

    def __iter__(self) -> Iterator[list[int]]:
        """Return an iterator that begins the next pass when its first batch is taken."""
        return self.iterate_from(0)

    def iterate_from(self, position: int) -> Iterator[list[int]]:
        """Return an iterator that begins the next pass at one of its batches; see `EpochSampler.iterate_from`.

        It raises what that method raises.
        """
        position = check_int("position", position, least=0)
        return self._passes.iterate(lambda begun: begun.iterate_batches(position))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass, as `EpochSampler.set_epoch` does.

        It raises what that method raises.
        """
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return which batches were yielded; see `EpochSampler.state_dict`."""
        return self.sampler.state_dict()

    def advance_state(
        self, state: dict[str, Any], received: int, beyond: Iterable[tuple[int, int]] = ()
    ) -> dict[str, Any]:
        """Return the state of a consumer that has received some batches; see `EpochSampler.advance_state`.

        Args:
            state: What `state_dict` returned before the pass, here or on another rank.
            received: How many batches from the beginning of the pass on were received.
            beyond: Ranges of batches that were also received: the first and the one after the last.

        Returns:
            A new state.

        Raises:
            TypeError, ValueError: If it is not a state of one rank, or the pass has no such batches.
        """
        read = read_state(state)
        begun = pass_of_state(self.sampler.order, read)
        numbers = to_places(received, beyond, begun.count_batches(), "batches")
        return begun.state(read.fingerprint, begun.places_of_batches(numbers), read)

    def next_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of the pass that follows the one that a state begins, as `EpochSampler.next_state` does.

        It raises what that method raises.
        """
        return self.sampler.next_state(state)

    # The loading of a pipeline's state calls it with the sampler's.
    merge_states = staticmethod(merge_states)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass yield what a state does not say was received, as `EpochSampler.load_state_dict` does.

        It raises what that method raises.
        """
        self.sampler.load_state_dict(state)


def continue_mix(order: MixedOrder, state: EpochState, data: str) -> tuple[MixedOrder, EpochState]:
    """Return a mix as a state, of this mix or of an earlier stage, lets it continue, and how far it is."""
    assert state.mix is not None
    saved = mix_stages.MixProgress.read(state.mix)
    if saved.stage == order.stage:
        return mix_stages.begun(order, saved), state
    if saved.stage > order.stage:
        _refuse_mix(f"it is of stage {saved.stage}, and this mix is stage {order.stage}. Pass stage={saved.stage}")
    try:
        former = mix_stages.former(order, saved)
    except ValueError as error:
        _refuse_mix(str(error))
    before = state.fingerprint.removeprefix(former.fingerprint)
    has_grown = len(former.parts) < len(order.parts) or former.num_items < order.num_items
    is_named = not before or before.startswith(" of data ")
    if before == state.fingerprint or len(former) != state.size or not (before == data or (has_grown and is_named)):
        _refuse_mix(
            f"it is of {state.fingerprint}, and with the corpora and the seed of this mix that stage would be of "
            f"{former.fingerprint}{data}"
        )
    delivered = delivered_by_all(state)
    in_order = len(state.received) == state.received.watermark or state.sharing.world_size == 1
    if state.others_behind or not in_order or len(delivered) != delivered.watermark:
        _refuse_mix(
            "it does not say that all ranks have received the same whole steps, so items that were drawn would come "
            "again or be left out. Save it after a step of all ranks, or load what merge_states() makes of the states "
            "of all ranks"
        )
    mix = mix_stages.after(order, former, state.epoch, len(delivered))
    return mix, EpochState(mix.fingerprint + data, len(mix), 0, state.sharing, None, EMPTY, EMPTY)


def _refuse_mix(reason: str) -> NoReturn:
    raise ValueError(f"`state` is not one from which this stage of a MixedOrder can continue: {reason}.")

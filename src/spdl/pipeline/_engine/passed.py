"""What a source says of itself, and the passes over it: where they began, and where an earlier run had left them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resumption import has_state, state_behind, state_of_next_pass
from .source_identity import SourceIdentity
from .source_passes import Passes

if TYPE_CHECKING:
    from .lineage import Lineage
    from .resumption import Leg, Resumption
    from .source_passes import Pass

__all__ = ["Passed"]


class Passed:
    """The passes over an iterable of the user's. `Source` pulls it."""

    __slots__ = (
        "current",
        "identity",
        "index",
        "iterable",
        "passes",
        "resumption",
        "state_behind",
        "unread",
    )

    def __init__(self, index: int, iterable: Any) -> None:
        self.index = index
        self.iterable = iterable
        self.identity = SourceIdentity(iterable)
        # The passes of which items may be in flight; the one that goes on; and the source's own state where none does.
        self.passes = Passes()
        self.current: Pass | None = None
        self.state_behind: Any = None
        # What is left of an earlier run, and whether the consumer has yet to see the end of this pass.
        self.resumption: Resumption | None = None
        self.unread = True

    def resume(self, passes: list[Pass], following: int, resumption: Resumption) -> None:
        """Go on where an earlier run was, before anything is pulled.

        Args:
            passes: The passes that the consumer was not done with.
            following: The number of the next pass.
            resumption: What is left of them.
        """
        self.passes.restore(passes, following)
        self.state_behind = resumption.state
        self.resumption = resumption

    def must_replay(self) -> bool:
        """Return whether an earlier run has begun a pass that is to go on."""
        return self.resumption is not None and self.resumption.goes_on()

    def begin_pass(self, lineage: Lineage, epochs_read: int) -> Leg | None:
        """Note that a pass begins. Needs no lock.

        Args:
            lineage: Where its items will be noted.
            epochs_read: How many epochs the consumer has seen the end of.

        Returns:
            What is left of it if an earlier run had begun it.
        """
        leg = None
        self.identity.note()
        if self.resumption is not None:
            leg = self.resumption.next_leg()
            state = self.resumption.state if leg is None else leg.of.state
            if leg is None:
                self.resumption = None
            self._load_state(state)
        if leg is not None:
            self.current = leg.of
            self.unread = not leg.read
            return leg
        self.unread = True
        state = self.own_state()
        self.current = self.passes.begin(
            lineage.next_position(self.index),
            state,
            epochs_read=epochs_read,
            lowest_out=lineage.lowest_out(self.index),
        )
        return None

    def _load_state(self, state: Any) -> None:
        if state is not None and has_state(self.iterable):
            self.iterable.load_state_dict(state)

    def note_first(self, item: object) -> None:
        """Note what the first item of a pass is."""
        assert self.current is not None
        self.current.note_first(item)

    def locate(self, position: int) -> tuple[int, int]:
        """Return the epoch of an item that is in flight, and where in that pass it is. Needs no lock."""
        return self.passes.locate(position)

    def note_end(self) -> BaseException | None:
        """Note what the source says of itself behind a pass, and return what it raises. Needs no lock."""
        try:
            if self.current is not None and self.current.end is None:
                self.state_behind = state_behind(self.iterable, self.current.state)
            elif self.resumption is not None and self.resumption.is_over():
                # The pass had ended in an earlier run, and may not have been iterated here, but others follow.
                self._load_state(self.resumption.state)
        except BaseException as error:  # noqa: BLE001 - it becomes the pipeline's failure.
            return error
        return None

    def note_state(self) -> None:
        """Note what the source says of itself before the first pass. Runs code of the user's."""
        if self.resumption is None:
            self.state_behind = self.own_state()

    def own_state(self) -> Any:
        """Return what the source says of itself before a pass; None if it says nothing. Runs code of the user's."""
        return state_of_next_pass(self.iterable)

"""An item that was sent to a worker, and where its results come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.groups import Foreign, Group, Result, Results

if TYPE_CHECKING:
    from spdl.pipeline._engine.groups import Root
    from spdl.pipeline._engine.lineage import Lineage
    from spdl.pipeline._engine.order import Ticket

__all__ = ["Sent"]


class Sent:
    """One item in a worker. Guarded by the engine's lock.

    Args:
        root: Where the item comes from.
        item: The item, if it may have to be sent again.
        ticket: Its place in the order of results, if the region keeps that.
    """

    __slots__ = ("_base", "_foreign", "_made", "_origins", "_paths", "deaths", "item", "passed_on", "root", "ticket")

    def __init__(self, root: Root, item: Any, ticket: Ticket | None) -> None:
        self.root = root
        self.item = item
        self.ticket = ticket
        # How many workers have died that had it.
        self.deaths = 0
        # Its only result has taken its place in the lineage.
        self.passed_on = False
        # What is to be released when nothing is left of it, in this order; the origins of results of generators, by the
        # numbers that lead to them; and that of results that several items have become.
        self._origins: list[Group] = []
        self._paths: dict[tuple[int, ...], Results | None] = {}
        self._foreign: Foreign | None = None
        self._base: Group | None = None
        # The results that have come.
        self._made: dict[tuple[int, ...], Result | None] = {}

    def died_again(self) -> int:
        """Count a worker that has died and had it. Return how many there were."""
        self.deaths += 1
        return self.deaths

    def only_result(self) -> Root | None:
        """Return the root of its only result, which takes its place; None if it has come before."""
        if self.passed_on:
            return None
        self.passed_on = True
        return self.root

    def result_of(self, lineage: Lineage, path: tuple[int, ...]) -> Root | None:
        """Return the root of a generator's result; None if it is not wanted, since it has come before."""
        return None if path in self._made else self._result(lineage, path)

    def _result(self, lineage: Lineage, path: tuple[int, ...]) -> Result | None:
        if path not in self._made:
            results = self._results(lineage, path[:-1])
            self._made[path] = None if results is None else results.numbered_result(path[-1])
        return self._made[path]

    def _results(self, lineage: Lineage, path: tuple[int, ...]) -> Results | None:
        if path not in self._paths:
            root: Root | None = self._origin() if not path else self._result(lineage, path)
            results = None if root is None else lineage.expand(root)
            self._paths[path] = results
            if results is not None:
                self._add(results)
        return self._paths[path]

    def shared(self) -> Root:
        """Return the origin of a result that several items have become, which has one descendant more now."""
        if self._foreign is None:
            self._foreign = Foreign([self._origin()], 1)
            self._add(self._foreign)
        return self._foreign.share()

    def has_shared(self) -> bool:
        """Return whether it has become such results: if it is sent again, others will come."""
        return self._foreign is not None

    def _origin(self) -> Root:
        return self.root if self._base is None else self._base.share()

    def _add(self, group: Group) -> None:
        self._base = self._base or group
        self._origins.append(group)

    def release(self, lineage: Lineage) -> None:
        """Note that nothing is left of it in the worker."""
        if self._origins:
            # Those that were made of others come first.
            for group in reversed(self._origins):
                lineage.drop(group)
        elif not self.passed_on:
            lineage.drop(self.root)

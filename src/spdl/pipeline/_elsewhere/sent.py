"""What the main pipeline knows of one item that is in a worker."""

from __future__ import annotations

from typing import Any

from spdl.pipeline._engine.channel import Ticket
from spdl.pipeline._state.lineage import Lineage
from spdl.pipeline._state.origins import Foreign, Group, Result, Results, Root


class Sent:
    """One item in a worker. Guarded by the engine's lock. It holds the item only if that may have to be sent again."""

    __slots__ = ("_base", "_foreign", "_made", "_origins", "_paths", "deaths", "item", "passed_on", "root", "ticket")

    def __init__(self, root: Root, item: Any, ticket: Ticket | None) -> None:
        self.root = root
        self.item = item
        self.ticket = ticket
        # How many workers died while they had this item.
        self.deaths = 0
        # Whether its only result has replaced it in the lineage.
        self.passed_on = False
        # Released in this order when nothing is left of it: the origins of results of generators, by the numbers that
        # lead to them, and the origin of results that several items have become.
        self._origins: list[Group] = []
        self._paths: dict[tuple[int, ...], Results | None] = {}
        self._foreign: Foreign | None = None
        self._base: Group | None = None
        # The results that were received.
        self._made: dict[tuple[int, ...], Result | None] = {}

    def died_again(self) -> int:
        """Count one more worker that died while it had this item. Return the number of such workers."""
        self.deaths += 1
        return self.deaths

    def only_result(self) -> Root | None:
        """Return the root of its only result, which replaces the item; None if that result was received before."""
        if self.passed_on:
            return None
        self.passed_on = True
        return self.root

    def result_of(self, lineage: Lineage, path: tuple[int, ...]) -> Root | None:
        """Return the root of a generator's result; None if that result was received before."""
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
        """Return the origin of a result made of several items, which has one descendant more now."""
        if self._foreign is None:
            self._foreign = Foreign([self._origin()], 1)
            self._add(self._foreign)
        return self._foreign.share()

    def has_shared(self) -> bool:
        """Return whether results were made of it and others: if it is sent again, the results differ."""
        return self._foreign is not None

    def _origin(self) -> Root:
        return self.root if self._base is None else self._base.share()

    def _add(self, group: Group) -> None:
        self._base = self._base or group
        self._origins.append(group)

    def release(self, lineage: Lineage) -> None:
        if self._origins:
            # Origins that were made of others come first.
            for group in reversed(self._origins):
                lineage.drop(group)
        elif not self.passed_on:
            lineage.drop(self.root)

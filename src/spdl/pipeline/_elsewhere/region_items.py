"""The items that are in a region's workers, and what the region reports of those that fail, and of dead workers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import FailedItem
from spdl.pipeline._elsewhere.worker_messages import Failure, Fault
from spdl.pipeline._report.failures import Quarantine, report_failed_item, type_and_message
from spdl.pipeline._state.origins import LISTED, Foreign, Group, Result, Results, Root

if TYPE_CHECKING:
    from spdl.pipeline._elsewhere.region_node import Peer, RegionNode
    from spdl.pipeline._elsewhere.regions import MirrorNode
    from spdl.pipeline._engine.channel import Ticket
    from spdl.pipeline._state.lineage import Lineage

_LOG = logging.getLogger("spdl.pipeline")


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


class FailedInWorker:
    """Records, counts and logs. All methods are called with the engine's lock held, and release it for user code."""

    def __init__(self, region: RegionNode) -> None:
        self._region = region

    def failed(self, peer: Peer, failure: Failure) -> None:
        roots = [sent.root for number in failure.items[:LISTED] if (sent := peer.sent.get(number)) is not None]
        error = failure.raised.unpack()
        assert isinstance(error, Exception)
        mirror = None if failure.stage is None else self._region.mirrors[failure.stage]
        self._deal_with(mirror, _one(roots), failure.failed, error)

    def not_sent(self, sent: Sent, item: Any, error: BaseException) -> None:
        if not isinstance(error, RuntimeError) or error.__cause__ is None:
            error = self._crossing("The item could not be pickled, to be sent to a worker", item, error)
        self._boundary(sent.root, item, error)

    def given_up(self, sent: Sent, death: BaseException) -> None:
        error = RuntimeError(f"{sent.deaths} workers have died with the item. The last: {death}")
        error.__cause__ = death.with_traceback(None)
        self._boundary(sent.root, sent.item, error)

    def not_readable(self, root: Root, error: BaseException) -> None:
        failure = self._crossing("A result could not be unpickled that a worker has sent", None, error)
        self._boundary(root, None, failure)

    def _crossing(self, what: str, item: Any, error: BaseException) -> RuntimeError:
        kind = "" if item is None else f" (of type {type(item).__qualname__})"
        failure = RuntimeError(f"{what}{kind}: {type(error).__name__}: {error} [{self._region.name}]")
        # Without the frames, which hold received results.
        failure.__cause__ = error.with_traceback(None)
        return failure

    def _boundary(self, root: Root, item: Any, error: BaseException) -> None:
        region = self._region
        assert isinstance(error, Exception)
        engine = region.engine
        engine.lock.release()
        try:
            # In words only: where it comes from is added below.
            failed = Quarantine().add(region.name, [], "", item=item, error=error, attempts=1)
        finally:
            engine.lock.acquire()
        self._deal_with(None, root, failed, error)

    def _deal_with(self, mirror: MirrorNode | None, root: Root | None, failed: FailedItem, error: Exception) -> None:
        region = self._region
        engine = region.engine
        node = mirror or region
        callback = None if mirror is None else mirror.on_failure()
        counters = node.counters
        counters.failed += 1
        count = counters.failed
        pairs = [] if root is None else engine.lineage.locate(root)
        origin = "an item" if root is None else engine.lineage.describe(root)
        placed = replace(
            failed,
            stage=node.name,
            positions=tuple(position for _, position in pairs),
            sources=tuple(source for source, _ in pairs),
            origin=origin,
        )

        def report() -> None:
            engine.failures.quarantine.adopt(placed)
            report_failed_item(placed, error, count, callback)

        # One failure is enough.
        node.report_failure(root, error, report, cut_off=region, limited=not region.cancelled)

    def faulty(self, faults: Sequence[Fault]) -> None:
        region = self._region
        for fault in faults:
            node = region if fault.stage is None else region.mirrors[fault.stage]
            region.engine.fail(node, None, fault.unpack(), cut_off=region)

    def death(self, peer: Peer, how: str, items: Sequence[Sent]) -> RuntimeError:
        region = self._region
        root = _one([sent.root for sent in items[:LISTED]])
        had = "no item" if root is None else region.engine.lineage.describe(root)
        return RuntimeError(f"Worker {peer.number} of {region.name} has died: {how}. It had {had}.")

    def not_run_again(self, death: BaseException) -> RuntimeError:
        stages = " and ".join(self._region.gathers)
        return RuntimeError(
            f'{death} They cannot be run again, as `on_death="rerun"` asks: {stages} has made results of several of '
            "them, some of which have come, and would make others of those that are left. Put `aggregate` before or "
            "after the region."
        )

    def not_replaced(self, error: Exception) -> RuntimeError:
        what = f"A worker of {self._region.name} has died, and no other could be started"
        failure = RuntimeError(f"{what}: {type_and_message(error)}")
        failure.__cause__ = error.with_traceback(None)
        return failure

    def run_again(self, death: BaseException) -> None:
        """Log that the items of a dead worker are run again. They wait to be sent already."""
        engine = self._region.engine
        engine.release_to_user()
        try:
            _LOG.warning("%s Its items are run again.", death)
        finally:
            engine.lock.acquire()

    def log(self, level: int, line: str) -> None:
        engine = self._region.engine
        engine.lock.release()
        try:
            _LOG.log(level, "%s: %s", self._region.name, line)
        finally:
            engine.lock.acquire()


def _one(roots: list[Root]) -> Root | None:
    """Return a root for all of these, to be located and described."""
    if len(roots) <= 1:
        return roots[0] if roots else None
    return Group(roots, 1)

"""Runs a program in a world, and checks all that the documentation promises about it."""

import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spdl.pipeline import Pipeline, PipelineFailure, PipelineStatistics
from tests.simulation.programs.inside import world

from .build import Aggregators, Built
from .check import Seen, Value, check
from .figures import compare_queues, listening
from .host import Host
from .item import Item, forget_items
from .lab import Lab
from .model import expect
from .program import Meddling, Program, all_pipes
from .remains import check_freed, look_for_threads, look_what_is_kept

_LATE_SECONDS = 0.02
_GRACE_SECONDS = 0.002
_FORGOTTEN_SECONDS = 3.0


def run(program: Program, host: Host) -> list[str]:
    """Run a program, and return what was wrong: nothing if the list is empty."""
    return checked(lambda: _run(program, host))


def checked(run: Callable[[], list[str]]) -> list[str]:
    """Run something silently, and return what was wrong, warnings included."""
    forget_items()
    # Such as of a coroutine that nobody awaited.
    with _silent_log(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        findings = run()
    return [*findings, *(f"a warning: {warning.message}" for warning in warned if not _is_due(str(warning.message)))]


def _is_due(warning: str) -> bool:
    """Return whether a warning is right: of an empty or replayed source, of ops that drop all, of a late reader."""
    return any(
        text in warning
        for text in (
            "has yielded nothing",
            "Nothing came out of the pipeline",
            "has been read to its end before",
            "was stopped before its end",
            "cannot begin at a position",
        )
    )


@contextlib.contextmanager
def _silent_log() -> Iterator[None]:
    """Log nothing of what fails on purpose."""
    logger = logging.getLogger("spdl.pipeline")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _run(program: Program, host: Host) -> list[str]:
    aggregators: Aggregators = {}
    findings, complete = _run_once(program, host, aggregators)
    # A finalizer that has not come yet would stop the pipeline of the first time in the second.
    late = any(meddling.deed == "stop_in_finalizer" for meddling in program.meddling)
    if program.twice and complete and not (findings or late):
        findings, _ = _run_once(program, host, aggregators)
        findings = [f"the second time, {finding}" for finding in findings]
    return findings


def _run_once(program: Program, host: Host, aggregators: Aggregators) -> tuple[list[str], bool]:
    """Return what was wrong, and whether it was read to its end."""
    lab = Lab(program, host)
    lab.rest.exact = host.call_at_rest(lab.rest.look) and all(source.kind != "pipeline" for source in program.sources)
    seen = Seen()
    work = _Run(lab, seen, aggregators)
    if program.slow_lock:
        host.make_lock_slow()
    lines: list[str] = []
    with listening(lines) if program.listens else contextlib.nullcontext():
        stacks = host.watch(work)
    complete = bool(seen.complete) and not (seen.failure or seen.stopped_early or program.continuous)
    # What a merge that returns early gives up is not flushed.
    complete = complete and lab.rest.given_up_at is None
    if not complete:
        # What they hold is nobody's.
        aggregators.clear()
    if stacks:
        return [*lab.findings, f"hang: {seen.doing}\n{stacks}"], False
    if seen.crash is not None:
        return [*lab.findings, seen.crash], False
    if seen.forked:
        # The rest is the parent's.
        return lab.findings, False
    findings = check(program, lab, seen, expect(program, exact_time=host.exact_time))
    if lab.rest.exact and seen.statistics is not None and seen.complete and not (seen.failure or seen.stopped_early):
        findings += lab.rest.compare(seen.statistics)
        if lab.rest.timed and not program.slow_lock:
            findings += compare_queues(lines, lab.rest)
    return [*lab.findings, *findings, *check_freed(lab)], complete


@dataclass
class _Run:
    """The work of the thread that runs a program."""

    lab: Lab
    seen: Seen
    aggregators: Aggregators
    # What is called within so many steps after the start.
    finalizers: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    # Threads that call `stop()` at a place of the engine.
    stoppers: list[world.Thread] = field(default_factory=list)

    def __call__(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding.
            self.seen.crash = f"{type(error).__name__} in the runner: {error}"
            import traceback  # noqa: PLC0415

            self.seen.crash += "\n" + traceback.format_exc()

    def _run(self) -> None:
        lab, seen = self.lab, self.seen
        built = Built(lab, self.aggregators)
        pipeline = built.pipeline
        self._arm(pipeline)
        meddlers = [
            world.Thread(target=self._meddle, args=(built, meddling), name=f"meddler {n}", daemon=True)
            for n, meddling in enumerate(lab.program.meddling)
            if meddling.deed not in ("stop_in_op", "stop_in_on_failure", "stop_in_finalizer")
        ]
        if lab.program.consumer.reading in ("forget", "exit", "fork"):
            del pipeline, meddlers
            self._leave(built)
            return
        self._run_to_end(built, meddlers)
        generators = [pipe.name for pipe in all_pipes(lab.program) if pipe.op.is_generator]
        seen.still_open = {name for name in generators if lab.running[name]}
        seen.doing = "stop of the sources' pipelines"
        for inner in built.inner:
            with contextlib.suppress(PipelineFailure):
                inner.stop()
        lab.stopped = True
        seen.doing = "meddlers' end"
        for meddler in [*meddlers, *self.stoppers]:
            meddler.join()
        lab.host.sleep(_GRACE_SECONDS)
        seen.statistics = pipeline.statistics()
        seen.failures = pipeline.failures()
        seen.threads = lab.host.threads_left()
        look_what_is_kept(pipeline, lab, seen)
        built.release()

    def _run_to_end(self, built: Built, meddlers: list[world.Thread]) -> None:
        """Start, read and stop the pipeline."""
        lab, seen, pipeline = self.lab, self.seen, built.pipeline
        try:
            with pipeline.auto_stop():
                for meddler in meddlers:
                    meddler.start()
                lab.rest.started = True
                self._let_describe(pipeline)
                for steps, finalizer in self.finalizers:
                    lab.host.call_within(steps, finalizer)
                self._begin_focus(built)
                try:
                    self._read(pipeline)
                    look_for_threads(lab, seen)
                    if lab.program.busy_pools and seen.complete and not lab.program.continuous:
                        for pool in built.pools.values():
                            pool.shutdown(wait=False, cancel_futures=True)
                finally:
                    lab.host.end_focus()
                    lab.rest.stop()
                seen.doing = "stop"
        except PipelineFailure as failure:
            self._failed(failure)
        except KeyboardInterrupt:
            seen.interrupted = True
        except TimeoutError as error:
            lab.report(f"stop() timed out: {error}")

    def _leave(self, built: Built) -> None:
        """Read some items, and let go of the pipeline without a word to it: its threads end on their own.

        Or do not even let go of it, but end the program, or go on in a forked child.
        """
        lab, seen = self.lab, self.seen
        values: list[Value] = []
        seen.epochs.append(values)
        try:
            for _ in range(lab.program.consumer.count):
                item = built.pipeline.get_item()
                values.append(value_of(item))
                del item
        except EOFError:
            pass
        except PipelineFailure as failure:
            self._failed(failure)
        seen.failures = built.pipeline.failures()
        lab.rest.stop()
        if lab.program.consumer.reading == "fork" and lab.host.fork():
            self._go_on_in_child(built)
            return
        if lab.program.consumer.reading == "exit" and lab.host.exit():
            lab.stopped = True
        lab.on_call = lambda _stage, _number: None
        lab.on_give_up = lambda _number: None
        del built.pipeline
        seen.doing = "after the pipeline is gone"
        for inner in built.inner:
            with contextlib.suppress(PipelineFailure):
                inner.stop()
        # Ops that run, and hooks that are left, go on for a while.
        lab.host.sleep(_FORGOTTEN_SECONDS if lab.host.simulated else 0.5)
        deadline = lab.host.now() + _FORGOTTEN_SECONDS
        while not lab.host.simulated and lab.host.threads_left() and lab.host.now() < deadline:
            lab.host.sleep(0.05)
        lab.stopped = True
        seen.threads = lab.host.threads_left()
        built.release()

    def _go_on_in_child(self, built: Built) -> None:
        """Look at the pipeline in a forked child, where it is dead."""
        self.seen.forked = True
        try:
            item = built.pipeline.get_item()
            self.lab.report(f"a forked child has got {item}")
        except RuntimeError as error:
            if "forked" not in str(error):
                self.lab.report(f"a forked child is told: {error}")
        except EOFError:
            self.lab.report("a forked child is told that there are no more items")
        built.pipeline.stop()

    def _failed(self, failure: PipelineFailure) -> None:
        # No exception is kept, since its traceback would keep items.
        self.seen.failure = [f"{type(error).__name__}: {error}" for error in failure.exceptions]

    def _arm(self, pipeline: Pipeline[Any]) -> None:
        stop = self._stop_of(pipeline)
        for meddling in self.lab.program.meddling:
            self._arm_for(meddling, stop)

    def _let_describe(self, pipeline: Pipeline[Any]) -> None:
        """Let the pipeline be asked about itself while everybody waits."""
        reference = weakref.ref(pipeline)

        def ready() -> int:
            running = reference()
            return 0 if running is None else running.statistics().stages[-1].queue_size

        self.lab.rest.describe = lambda: repr(reference())
        self.lab.rest.ready = ready

    def _stop_of(self, pipeline: Pipeline[Any]) -> Callable[[], None]:
        # An op that refers to the pipeline would keep it alive.
        reference = weakref.ref(pipeline)

        def stop() -> None:
            running = reference()
            if running is not None:
                self.seen.stopped_early = True
                self.lab.rest.stop()
                running.stop()

        return stop

    def _finalizer(self, stop: Callable[[], None]) -> Callable[[], None]:
        def finalize() -> None:
            with contextlib.suppress(PipelineFailure):
                stop()
            self.lab.host.note_stop()

        return finalize

    def _begin_focus(self, built: Built) -> None:
        """Have something happen at a place of the engine, if the host has one in mind."""

        def stop_elsewhere() -> None:
            stop = Meddling("stop")
            thread = world.Thread(target=self._meddle, args=(built, stop), name="meddler", daemon=True)
            self.stoppers.append(thread)
            thread.start()

        self.lab.host.begin_focus(self._finalizer(self._stop_of(built.pipeline)), stop_elsewhere)

    def _arm_for(self, meddling: Meddling, stop: Callable[[], None]) -> None:
        """Have the pipeline stopped where a program stops it from within."""

        def on_call(stage: str, number: int) -> None:
            if stage == meddling.stage and number == meddling.after:
                stop()

        def on_give_up(number: int) -> None:
            if number == meddling.after:
                stop()

        if meddling.deed == "stop_in_op":
            self.lab.on_call = on_call
        elif meddling.deed == "stop_in_on_failure":
            self.lab.on_give_up = on_give_up
        elif meddling.deed == "stop_in_finalizer":
            self.finalizers.append((meddling.after, self._finalizer(stop)))

    def _meddle(self, built: Built, meddling: Meddling) -> None:
        lab, pipeline = self.lab, built.pipeline
        lab.host.sleep(meddling.after / 1000)
        try:
            if meddling.deed == "stop":
                self.seen.stopped_early = True
                lab.rest.stop()
                pipeline.stop()
                lab.stopped = not any(source.kind == "pipeline" for source in lab.program.sources)
            elif meddling.deed == "statistics":
                self._look(pipeline.statistics())
            elif meddling.deed == "failures":
                pipeline.failures()
            elif meddling.deed == "concurrency":
                pipeline.set_concurrency(meddling.stage, meddling.value)
                lab.rest.set_concurrency(meddling.stage, meddling.value)
            elif meddling.deed == "shut_pool":
                built.pools[meddling.stage].shutdown(wait=False)
            elif meddling.deed == "threads":
                pipeline.set_num_threads(meddling.value)
                lab.rest.set_num_threads(meddling.value)
            else:
                pipeline.set_queue_capacity(meddling.stage or "sink", meddling.value)
                lab.rest.set_capacity(meddling.stage or "sink", meddling.value)
        except PipelineFailure as failure:
            self._failed(failure)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding.
            lab.report(f"{meddling.deed} raised {type(error).__name__}: {error}")

    def _look(self, statistics: PipelineStatistics) -> None:
        self.seen.looks.append(statistics)

    def _read(self, pipeline: Pipeline[Any]) -> None:
        program, seen = self.lab.program, self.seen
        reading = program.consumer.reading
        seen.doing = "reading"
        if reading == "late":
            self.lab.host.sleep(_LATE_SECONDS)
            self._look(pipeline.statistics())
        for epoch in range(program.consumer.epochs if program.continuous else 1):
            values: list[Value] = []
            seen.epochs.append(values)
            if reading == "readers":
                self._read_together(pipeline, values)
            elif reading == "interrupt_readers":
                self._read_beside_another(pipeline, values)
            elif reading == "get_item":
                self._get(pipeline, values)
            elif not self._iterate_again(pipeline, values):
                return
            if not (program.continuous or seen.stopped_early) and any(self.lab.hook_balance.values()):
                self.lab.report("the end comes before the stage hooks are left")
            seen.complete = epoch + 1
            seen.ended_at = self.lab.host.now()

    def _iterate_again(self, pipeline: Pipeline[Any], values: list[Value]) -> bool:
        """Read an epoch; some consumers go on after a Ctrl-C. Return whether it was read to its end."""
        consumer = self.lab.program.consumer
        try:
            return self._iterate(pipeline, values)
        except KeyboardInterrupt:
            if consumer.reading != "interrupt" or consumer.count % 2:
                raise
            self.lab.rest.sink.lost = 1
            # It never ends with all items: one may be gone.
            self._read_rest(pipeline, values)
            return False

    def _read_rest(self, pipeline: Pipeline[Any], values: list[Value]) -> None:
        sink = self.lab.rest.sink
        items = iter(pipeline)
        while True:
            sink.readers += 1
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                sink.readers -= 1
            sink.delivered += 1
            values.append(value_of(item))
            del item

    def _iterate(self, pipeline: Pipeline[Any], values: list[Value]) -> bool:
        """Read an epoch. Return whether it was read to its end."""
        consumer = self.lab.program.consumer
        interrupted = consumer.reading in ("interrupt", "interrupt_readers")
        ours = interrupted and not self.lab.host.interrupt_at(consumer.count)
        if consumer.reading == "break" and not consumer.count:
            return False
        sink = self.lab.rest.sink
        items = iter(pipeline)
        while True:
            sink.readers += 1
            try:
                item = next(items)
            except StopIteration:
                return True
            finally:
                sink.readers -= 1
            sink.delivered += 1
            values.append(value_of(item))
            self._pause(len(values))
            if ours and len(values) >= consumer.count:
                raise KeyboardInterrupt
            if consumer.reading == "break" and len(values) >= consumer.count:
                return False

    def _read_together(self, pipeline: Pipeline[Any], values: list[Value]) -> None:
        threads = [self._reader(pipeline, values) for _ in range(max(1, self.lab.program.consumer.count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _read_beside_another(self, pipeline: Pipeline[Any], values: list[Value]) -> None:
        """Read in two threads, of which this one may be interrupted. The other one reads the rest."""
        thread = self._reader(pipeline, values)
        thread.start()
        try:
            self._iterate(pipeline, values)
        finally:
            # What it was about to take when the interrupt came.
            self.lab.rest.sink.lost = 1
            thread.join()

    def _reader(self, pipeline: Pipeline[Any], values: list[Value]) -> world.Thread:
        sink = self.lab.rest.sink

        def read() -> None:
            items = iter(pipeline)
            try:
                while True:
                    sink.readers += 1
                    try:
                        item = next(items)
                    except StopIteration:
                        return
                    finally:
                        sink.readers -= 1
                    sink.delivered += 1
                    # Appending is atomic.
                    values.append(value_of(item))
                    self._pause(len(values))
                    del item
            except PipelineFailure as failure:
                self._failed(failure)

        return world.Thread(target=read, daemon=True)

    def _get(self, pipeline: Pipeline[Any], values: list[Value]) -> None:
        while True:
            try:
                item = pipeline.get_item(timeout=0.0 if len(values) % 3 == 0 else 0.002)
            except TimeoutError:
                self.lab.host.sleep(0.001)
                continue
            except EOFError:
                return
            self.lab.rest.sink.delivered += 1
            values.append(value_of(item))
            self._pause(len(values))

    def _pause(self, count: int) -> None:
        consumer = self.lab.program.consumer
        if consumer.pause and count % consumer.each == 0:
            self.lab.host.sleep(consumer.pause / 1000)
        else:
            self.lab.host.step()


def value_of(item: Any) -> Value:
    """Return what is remembered of an item that was delivered: nothing that keeps it in memory."""
    elements: list[Item] = list(item) if isinstance(item, list) else [item]
    for element in elements:
        element.watched = False
    return Value(
        tuple(element.key for element in elements),
        isinstance(item, list),
        frozenset(element.epoch for element in elements),
    )

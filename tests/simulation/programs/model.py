"""What the documentation says may come out of a program.

The model walks through the stages once, for one epoch. Between two stages there is a `Flow`: the items that pass there,
and how much of their order and of their grouping is promised. It never runs the engine, and knows none of its rules
that the documentation does not state.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from .behaviour import Outcome, decide, ends_batch, is_unsendable, keeps, path_of, step_of
from .expected import RAISE_AFTER, Batch, Expected, FailureKey, Flow, Root, Tally, merge_flows
from .item import Key
from .program import Aggregate, Disaggregate, Fork, Pipe, Program, Source, Stage, all_pipes, all_stages


def expect(program: Program, *, exact_time: bool) -> Expected:
    """Return what a program may do. ``exact_time`` says whether only ops that are meant to exceed their timeouts."""
    return _Walk(program, exact_time=exact_time).expected()


class _Walk:
    def __init__(self, program: Program, *, exact_time: bool) -> None:
        self.program = program
        self.exact_time = exact_time
        self.epochs = program.consumer.epochs if program.continuous else 1
        self.tallies = {pipe.name: Tally() for pipe in all_pipes(program)}
        self.failures: Counter[FailureKey] = Counter()
        self.failures_known = True
        self.must: list[str] = []
        self.may: list[str] = []
        self.uncertain: list[str] = []
        self.overdue_known = True
        self.swallowed = 0
        self.abandoned = 0
        self.without_op = sum(isinstance(stage, Disaggregate | Fork) for stage in all_stages(program))
        threads = [deed.value for deed in program.meddling if deed.deed == "threads"]
        self.fewest_threads = min(program.num_threads, *threads, program.num_threads)
        # The positions of an item that was in a batch are those of the batch. None if its composition is not known.
        self.origins: dict[Key, frozenset[Root] | None] = {}
        self.calls: Counter[str] = Counter()
        self.moved = {deed.stage for deed in program.meddling if deed.deed == "concurrency"}

    def expected(self) -> Expected:
        flows = [self._stages(source.stages, self._source(n, source)) for n, source in enumerate(self.program.sources)]
        flow = self._stages(self.program.stages, merge_flows(flows))
        self._limits()
        self._nothing(flow)
        if self.program.queue == "raise":
            self.may.append("a queue raises")
        if self.program.hooks == "late":
            # Stages without an op have hooks, too.
            (self.must if self.tallies else self.may).append("a stage's hook raises at its end")
        if self.program.merge == "early":
            self.uncertain.append("the merge returns early")
            self.failures_known = False
            self.may += [*self.must, "fewer items come than there are"]
            self.must.clear()
        if self.program.queue in ("lose", "double", "keep", "overtake"):
            self.uncertain.append("a queue is at fault")
            self.failures_known = False
            # The queue behind the first source: what it loses is missed at the end of the epoch.
            (self.must if self._loss_is_noticed() else self.may).append("a queue is at fault")
        if self.program.hooks in ("raise", "cancel", "timeout"):
            self.uncertain.append("a hook raises")
            self.may.append("a hook raises")
            self.failures_known = False
        if self.program.pools_fail_at >= 0 and any(pipe.pool == "thread" for pipe in all_pipes(self.program)):
            self.may.append("a pool has no thread for a call")
            self.uncertain.append("a pool has no thread for a call")
            self.failures_known = False
        if any(deed.deed == "shut_pool" for deed in self.program.meddling):
            self.may.append("a pool is shut down")
            self.uncertain.append("a pool is shut down")
            self.failures_known = False
        return Expected(
            flow,
            self.tallies,
            self.failures,
            self.failures_known,
            self.overdue_known,
            self.must,
            self.may,
            self.uncertain,
        )

    def _loss_is_noticed(self) -> bool:
        """Return whether the fault of the queue behind the first source has to fail the pipeline."""
        source, kind = self.program.sources[0], self.program.queue
        if len(self.program.sources) > 1:
            return False
        if kind in ("keep", "overtake"):
            return kind == "keep" or (self.program.continuous and source.size > 0)
        reached = source.size >= RAISE_AFTER and not 0 <= source.raise_at < RAISE_AFTER
        return reached and not self.program.continuous

    def _source(self, number: int, source: Source) -> Flow:
        size = source.size
        if 0 <= source.raise_at <= size and source.kind != "list":
            late = source.raise_epoch
            if not late:
                size = source.raise_at
            due = self.epochs > late
            (self.must if due else self.may).append(f"source {number} raises" + f" in pass {late}" * bool(late))
        if source.raise_in_close and source.kind != "list":
            # The others are closed only if they end early.
            always = source.kind in ("generator", "async_generator", "async_iterator")
            (self.must if always else self.may).append(f"close of source {number} raises")
        if source.kind == "once" and self.program.continuous:
            (self.must if self.epochs > 1 else self.may).append(f"source {number} does not begin anew")
        if size == 0 and self.program.continuous:
            self.may.append(f"source {number} is empty")
        return Flow([(number, position, ()) for position in range(size)])

    def _stages(self, stages: Sequence[Stage], flow: Flow) -> Flow:
        for stage in stages:
            if isinstance(stage, Pipe):
                flow = self._pipe(stage, flow)
            elif isinstance(stage, Aggregate):
                flow = self._aggregate(stage, flow)
            elif isinstance(stage, Disaggregate):
                flow = self._disaggregate(flow)
            else:
                flow = self._fork(stage, flow)
        return flow

    def _pipe(self, pipe: Pipe, flow: Flow) -> Flow:
        self._watch(pipe)
        if pipe.op.fail_epoch >= 0 and self.program.continuous:
            due = self.epochs > pipe.op.fail_epoch and flow.size
            (self.must if due else self.may).append(f"{pipe.name} fails on all of epoch {pipe.op.fail_epoch}")
        if flow.unknown:
            self._is_unknown(pipe)
            return flow
        size = flow.size
        certain = len(self.must)
        after = replace(flow, singles=[])
        if flow.in_batches and flow.batches is None:
            if pipe.op.by_batch:
                return self._lose(flow, (pipe,))
            self._loose(pipe, flow, after)
        elif flow.batches is not None:
            after.batches = []
            for batch in flow.batches:
                after.batches += self._apply(pipe, batch, batched=True)
        else:
            after.missing *= pipe.op.fan
            for key in flow.singles:
                after.singles += [batch[0] for batch in self._apply(pipe, (key,), batched=False)]
        if flow.missing:
            self.tallies[pipe.name].exact = self.failures_known = False
            # The item that it fails for may not come.
            self.may += self.must[certain:]
            del self.must[certain:]
        serial = pipe.ordered or (pipe.concurrency == 1 and pipe.name not in self.moved)
        if not serial and size not in (0, 1):
            after.order = ""
        return after

    def _watch(self, pipe: Pipe) -> None:
        """Note what a timeout may cause by chance."""
        if pipe.timeout and (self.program.hooks or not self.exact_time or pipe.op.edge):
            self.overdue_known = False
            if pipe.drop_overdue:
                self.uncertain.append(f"{pipe.name} may exceed its timeout by chance")
                self.may.append(f"{pipe.name} may exceed its timeout by chance")
                self.failures_known = False

    def _apply(self, pipe: Pipe, keys: Batch, *, batched: bool) -> list[Batch]:
        """Return the results of an op on an item, or on a batch."""
        op, tally = pipe.op, self.tallies[pipe.name]
        outcome = decide(op, keys, batch=batched)
        tally.tried += 1
        if not self._begins(pipe, keys, outcome):
            return []
        kept = [key for key in keys if not batched or keeps(op, key)]
        results = [
            tuple(self._child(key, step_of(pipe.name, number, op)) for key in kept) for number in range(outcome.results)
        ]
        if outcome.end == "error":
            in_process = pipe.pool == "process"
            if in_process:
                self.uncertain.append(f"{pipe.name} fails midway in a process")
                tally.exact = False
            self._fails(pipe, keys, None if in_process else 1)
        else:
            tally.completed += 1
        tally.dropped += outcome.end == "none"
        self.swallowed += outcome.end == "ok" and not results
        tally.emitted += len(results)
        return results

    def _begins(self, pipe: Pipe, keys: Batch, outcome: Outcome) -> bool:
        """Return whether the op gets as far as to its first result, after as many attempts as it may have."""
        tally, in_process = self.tallies[pipe.name], pipe.pool == "process"
        if in_process and any(self._is_unsendable(key) for key in keys):
            tally.retried += pipe.retries
            self._fails(pipe, keys, pipe.retries + 1)
            return False
        # A hook that does not wait cancels it before its time is up, and an answer to that is a result like others.
        answers = self.program.hooks == "timeout" and pipe.op.answers_cancellation
        if outcome.slow and pipe.timeout and pipe.drop_overdue and not (in_process or answers):
            self._fails(pipe, keys, 1)
            tally.overdue += 1
            # A continuous source runs ahead into epochs that are not read.
            self.abandoned += 10 if self.program.continuous else 1
            if self.abandoned > 2 * self.fewest_threads:
                self.may.append("too many ops hang")
            return False
        failing = outcome.failing_attempts
        if in_process and failing:
            failing = 1 << 30
        if outcome.slow and pipe.timeout:
            again = outcome.end != "fatal" and not outcome.generates
            tally.overdue += 1 + (min(failing, pipe.retries) if again else 0)
        if failing and outcome.end == "fatal":
            self.must.append(f"{pipe.name} raises a BaseException")
            return False
        if outcome.generates and failing:
            # In a process its results come all at once; whether it has begun before is not said.
            if in_process and pipe.retries:
                tally.exact = False
            self._fails(pipe, keys, None if in_process and pipe.retries else 1)
            return False
        tally.retried += min(failing, pipe.retries)
        if failing > pipe.retries:
            self._fails(pipe, keys, pipe.retries + 1)
            return False
        return True

    def _is_unsendable(self, key: Key) -> bool:
        number, position, trail = key
        return not trail and is_unsendable(self.program.sources[number], number, position)

    def _fails(self, pipe: Pipe, keys: Batch, attempts: int | None) -> None:
        self.tallies[pipe.name].failed += 1
        self.failures[pipe.name, self._origin_of(keys), attempts or 0] += 1

    def _child(self, key: Key, step: str) -> Key:
        child = key[0], key[1], (*key[2], step)
        self.origins[child] = self._origin_of((key,))
        return child

    def _origin_of(self, keys: Batch) -> frozenset[Root] | None:
        origins = [self.origins.get(key, frozenset({key[:2]})) for key in keys]
        return None if None in origins or not keys else frozenset().union(*(origin for origin in origins if origin))

    def _group(self, keys: Sequence[Key], *, known: bool) -> None:
        """Note that items are in a batch, or in unknown ones."""
        origin = self._origin_of(tuple(keys)) if known else None
        for key in keys:
            self.origins[key] = origin

    def _loose(self, pipe: Pipe, flow: Flow, after: Flow) -> None:
        """Work on batches of which only the elements are known. All of them have the same fate."""
        op, tally = pipe.op, self.tallies[pipe.name]
        some = ((0, 0, ()),)
        outcome = decide(op, some, batch=True)
        tally.exact = tally.exact and flow.count is not None
        count = flow.count or 0
        tally.tried += count
        if outcome.end == "error":
            tally.failed += count
            tally.retried += 0 if outcome.generates else count * pipe.retries
            self.failures_known = False
            if outcome.generates and pipe.pool == "process":
                tally.exact = False
            after.count = 0
            return
        tally.completed += count
        tally.emitted += count * outcome.results
        after.count = None if flow.count is None else count * outcome.results
        after.missing = flow.missing * outcome.results
        for number in range(outcome.results):
            step = step_of(pipe.name, number, op)
            after.singles += [self._child(key, step) for key in flow.singles if keeps(op, key)]

    def _aggregate(self, stage: Aggregate, flow: Flow) -> Flow:
        if stage.raise_at >= 0:
            self._raises(stage.name, flow, stage.raise_at)
        if flow.unknown or flow.in_batches:
            return self._lose(flow, ())
        # A hook or a queue that raises may end the input early, and with it a batch.
        if (
            flow.order == "all"
            and not flow.missing
            and self.program.hooks not in ("raise", "cancel", "timeout")
            and self.program.queue in ("", "pass", "wrap", "hoard")
        ):
            batches: list[Batch] = []
            batch: Batch = ()
            for key in flow.singles:
                batch += (key,)
                if ends_batch(stage, len(batch), key):
                    batches.append(batch)
                    batch = ()
            if batch and not stage.drop_last:
                batches.append(batch)
            self.swallowed += bool(batch and stage.drop_last)
            for batch in batches:
                self._group(batch, known=True)
            return Flow(batches=batches, in_batches=True)
        total = len(flow.singles)
        self._group(flow.singles, known=False)
        after = Flow(flow.singles, in_batches=True, order="", inner=False, missing=flow.missing)
        if stage.drop_last:
            after.missing += total if stage.seed else min(stage.n - 1, total)
            self.swallowed += 1
        if not stage.seed and not flow.missing:
            after.count = total // stage.n if stage.drop_last else -(-total // stage.n)
        return after

    def _disaggregate(self, flow: Flow) -> Flow:
        if flow.unknown or not flow.in_batches:
            return self._lose(flow, ())
        order = "all" if flow.batches is not None and flow.order == "all" and flow.inner else ""
        return Flow(flow.elements, order=order, missing=flow.missing)

    def _fork(self, fork: Fork, flow: Flow) -> Flow:
        if fork.raise_at >= 0:
            self._raises(fork.name, flow, fork.raise_at)
        inside = [pipe for path in fork.paths for pipe in path if isinstance(pipe, Pipe)]
        if flow.unknown or (fork.batched and not flow.in_batches):
            for path in fork.paths:
                self._stages(path, self._lose(flow, inside))
            return self._lose(flow, inside)
        return self._batched_fork(fork, flow) if fork.batched else self._plain_fork(fork, flow)

    def _plain_fork(self, fork: Fork, flow: Flow) -> Flow:
        if flow.in_batches and flow.batches is None:
            for path in fork.paths:
                self._stages(path, replace(flow, unknown=True))
            return replace(flow, unknown=True)
        flows = []
        for number, path in enumerate(fork.paths):
            if flow.batches is None:
                share = replace(flow, singles=[key for key in flow.singles if path_of(fork, (key,)) == number])
            else:
                share = replace(flow, batches=[batch for batch in flow.batches if path_of(fork, batch) == number])
            flows.append(self._stages(path, share))
        merged = merge_flows(flows)
        if len(flows) > 1:
            merged.order = ""
        return merged

    def _batched_fork(self, fork: Fork, flow: Flow) -> Flow:
        if flow.batches is None:
            flows = [
                self._stages(
                    path, replace(flow, singles=[key for key in flow.singles if path_of(fork, (key,)) == number])
                )
                for number, path in enumerate(fork.paths)
            ]
            self.swallowed += 1
            merged = merge_flows(flows)
            return replace(merged, order="", inner=False, count=None, in_batches=True)
        after = replace(flow, batches=[])
        assert after.batches is not None
        for batch in flow.batches:
            joined: Batch = ()
            for number, path in enumerate(fork.paths):
                share = tuple(key for key in batch if path_of(fork, (key,)) == number)
                result = self._stages(path, Flow(batches=[share], in_batches=True, inner=flow.inner))
                if result.unknown or result.batches is None:
                    return self._lose(flow, ())
                after.inner = after.inner and result.inner and (len(result.batches) < 2 or result.order == "all")
                joined += tuple(key for part in result.batches for key in part)
            if joined:
                after.batches.append(joined)
            else:
                self.swallowed += 1
        return after

    def _raises(self, name: str, flow: Flow, number: int) -> None:
        """Note that the stage raises at a call of this number, counted over all epochs."""
        size = flow.size
        self.may.append(f"{name} raises")
        if size is not None and size * self.epochs > number and not self.calls[name]:
            self.must.append(f"{name} raises")
        self.calls[name] += 1

    def _is_unknown(self, pipe: Pipe) -> None:
        self.tallies[pipe.name].exact = self.failures_known = False
        if pipe.op.fatal or pipe.op.fail or pipe.op.flaky or pipe.op.midway or pipe.op.slow:
            self.may.append(f"{pipe.name} may fail")

    def _lose(self, flow: Flow, pipes: Sequence[Pipe]) -> Flow:
        self.failures_known = False
        self.uncertain.append("the model does not know")
        for pipe in pipes:
            self._is_unknown(pipe)
        return replace(flow, singles=flow.elements, batches=None, unknown=True, order="", count=None)

    def _limits(self) -> None:
        """Note which limits of failures are exceeded."""
        own = {pipe.name: pipe.max_failures for pipe in all_pipes(self.program)}
        groups = [([name], limit, 0) for name, limit in own.items() if limit]
        # Stages without an op count what they take, too: at most so many items, which is not known exactly.
        rest = [name for name, limit in own.items() if not limit]
        groups.append((rest, self.program.max_failures, 100 * self.without_op))
        for names, limit, others in groups:
            tallies = [self.tallies[name] for name in names]
            failed, tried = sum(tally.failed for tally in tallies), sum(tally.tried for tally in tallies)
            certain = self.failures_known or all(tally.exact for tally in tallies)
            if not limit or int(Fraction(limit)) < 0:
                continue
            what = f"{' '.join(names)}: max_failures={limit}"
            if not certain:
                self.may.append(what)
            if not failed:
                continue
            if "/" in limit:
                # From the 100th item on, it depends on the order in which they come. At the end it does not.
                if tried >= 100 and certain and failed > Fraction(limit) * (tried + others):
                    self.must.append(what)
                elif (tried + others) * (self.epochs + 10 * self.program.continuous) >= 100:
                    self.may.append(what)
            else:
                if failed * self.epochs > int(limit) and certain:
                    self.must.append(what)
                # A continuous source runs ahead into epochs that are not read.
                if self.program.continuous:
                    self.may.append(what)

    def _nothing(self, flow: Flow) -> None:
        failed = sum(tally.failed for tally in self.tallies.values())
        dropped = sum(tally.dropped for tally in self.tallies.values())
        exact = all(tally.exact for tally in self.tallies.values())
        known = exact and not self.uncertain and flow.size is not None
        if known and (not failed or flow.size or dropped):
            return
        (self.must if known and not self.swallowed else self.may).append("nothing came out")

"""Draws random programs: small ones, with a few features each, so that all pairs of features meet often."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from .model import expect
from .program import (
    Aggregate,
    Consumer,
    Deed,
    Disaggregate,
    Fork,
    Form,
    Hooks,
    Meddling,
    Op,
    Pipe,
    Pool,
    Program,
    Queue,
    Reading,
    Source,
    SourceKind,
    Stage,
    all_pipes,
    all_stages,
    change_pipes,
)
from .themes import PACED, Theme, draw_theme

_TIMEOUT = 0.03
# A program of so many stages gets no further forks and batches, which bring more.
_MANY_STAGES = 8
# The share of programs that are short, and run again at one place after another.
_SHORT = 0.1


def draw(random: Random) -> Program:
    """Return a random program."""
    short = random.random() < _SHORT
    return _Draw(random, draw_theme(random, short=short), short=short).program()


class _Draw:
    def __init__(self, random: Random, chances: Theme, *, short: bool) -> None:
        self.random = random
        # Whether it has few items and stages.
        self.short = short
        self.names = 0
        # Whether the next stage has a pool, if they take turns.
        self.elsewhere = random.random() < 0.4
        # Whether sources that are merged have no stages of their own.
        self.plain_branches = chances is PACED and random.random() < 0.6
        # What this program is about. Everything at once would hide one thing behind the other.
        self.features = {feature for feature, chance in chances.items() if random.random() < chance}

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _has(self, feature: str, share: float = 1.0) -> bool:
        if feature in ("fork", "batch") and self.names > _MANY_STAGES:
            return False
        return feature in self.features and self._chance(share)

    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def program(self) -> Program:
        random = self.random
        continuous = "continuous" in self.features and (not self.short or "interrupted" in self.features)
        number = random.choice((2, 2, 3)) if "merge" in self.features and not self.short else 1
        sources = tuple(self._source(merged=number > 1, continuous=continuous) for _ in range(number))
        stages = self._stages(self._num_stages())
        if "drops last" in self.features:
            stages = (*stages, self._aggregate(drop_last=True))
        program = Program(
            sources,
            stages,
            continuous,
            random.randint(1, 2 if self.short or "slow reader" in self.features else 4),
            self._num_threads(),
            self._limit(0.5),
            self._pick_queue(),
            self._pick_hooks(),
            self._consumer(continuous=continuous),
        )
        last = stages[-1] if stages else None
        if isinstance(last, Aggregate) and last.drop_last and not continuous and self._chance(0.5):
            # What is dropped at the end is dropped whether or not anybody reads.
            # Or it comes back again and again.
            consumer = Consumer("late", pause=random.choice((0, 8)), each=1)
            program = replace(program, buffer_size=random.randint(1, 2), consumer=consumer)
        if number > 1 and "own merge" in self.features:
            program = self._merged(program)
        if continuous and number == 1 and "bad epoch" in self.features:
            program = self._with_bad_epoch(program)
        if "limit" in self.features and self._chance(0.6):
            program = self._tightened(program)
        first = program.stages[0] if program.stages else None
        if isinstance(first, Pipe) and first.pool == "process" and not program.hooks and self._chance(0.4):
            program = replace(program, sources=tuple(replace(source, unsendable=15) for source in program.sources))
        program = self._meddled(program)
        paced = "pace" in self.features
        return replace(
            program,
            ranked_workers=random.choice((1, 1, 1, 2, 3)),
            busy_pools="thread" in self.features and self._chance(0.6 if "busy pools" in self.features else 0.2),
            pools_fail_at=random.choice((0, 1, 3)) if "thread" in self.features and self._chance(0.06) else -1,
            twice=not self.short and self._chance(0.3 if _drops_last(program) else 0.04),
            resumed=not self.short and self._chance(0.09),
            listens=paced and self._chance(0.3),
            slow_lock=paced and self._chance(0.15),
            series=self.short,
        )

    def _num_stages(self) -> int:
        if self.short:
            return self.random.choice((2, 3) if "long" in self.features else (1, 1, 2))
        if "slow reader" in self.features:
            return self.random.choice((0, 0, 1, 2))
        return self.random.choice((2, 3, 3, 4) if "long" in self.features else (0, 1, 1, 2, 2, 3))

    def _num_threads(self) -> int:
        if "scarce" in self.features:
            return self.random.choice((1, 1, 2))
        if "ample" in self.features:
            return 16
        return self.random.choice((1, 2, 3, 4, 6, 12) if "pace" in self.features else (1, 2, 3, 4))

    def _with_bad_epoch(self, program: Program) -> Program:
        """Return a program of which one epoch fails as a whole."""
        if not program.stages or self._chance(0.4):
            source = program.sources[0]
            return replace(program, sources=(replace(source, kind="once"),))
        first = program.stages[0]
        if not isinstance(first, Pipe) or first.pool == "process":
            return program
        first = replace(first, op=replace(first.op, fail_epoch=1))
        return replace(program, stages=(first, *program.stages[1:]))

    def _tightened(self, program: Program) -> Program:
        """Return a program with a limit that its failures just exceed, or just do not."""
        tallies = expect(program, exact_time=True).tallies
        failed = sum(tally.failed for tally in tallies.values())
        if not failed:
            return program
        pipes = [pipe for pipe in all_pipes(program) if tallies[pipe.name].failed]
        if len(pipes) > 1 and self._chance(0.5):
            # They count together if none of them has a limit of its own.
            program = self._replace_pipes(program, lambda pipe: replace(pipe, max_failures=""))
            return replace(program, max_failures=str(failed - self.random.randint(0, 1)))
        chosen = self.random.choice(pipes)
        failed, tried = tallies[chosen.name].failed, tallies[chosen.name].tried
        limit = str(failed - self.random.randint(0, 1))
        if tried >= 100 and self._chance(0.7):
            limit = f"{2 * failed - 1}/{2 * tried}"
        return self._replace_pipes(
            program, lambda pipe: replace(pipe, max_failures=limit) if pipe.name == chosen.name else pipe
        )

    def _replace_pipes(self, program: Program, change: Callable[[Pipe], Pipe]) -> Program:
        sources = tuple(replace(source, stages=change_pipes(source.stages, change)) for source in program.sources)
        return replace(program, sources=sources, stages=change_pipes(program.stages, change))

    def _merged(self, program: Program) -> Program:
        """Return a program whose merge is not the engine's."""
        if program.continuous or self._chance(0.4):
            return replace(program, merge="own")
        total = sum(source.size for source in program.sources)
        sources = program.sources
        if self._chance(0.5):
            # One of them blocks when it is not wanted any more.
            last = sources[-1]
            sources = (*sources[:-1], replace(last, blocks_at=self.random.randint(0, min(4, last.size))))
        return replace(program, sources=sources, merge="early", merge_count=self.random.randint(0, total // 2))

    def _pick_queue(self) -> Queue:
        if "queue" not in self.features:
            return ""
        kinds: list[Queue] = ["pass", "pass", "wrap", "wrap", "hoard", "hoard"]
        kinds += ["raise", "lose", "double", "keep", "overtake"]
        if "continuous" in self.features:
            kinds += ["overtake"] * 5
        return self.random.choice(kinds)

    def _pick_hooks(self) -> Hooks:
        kinds: tuple[Hooks, ...] = (
            "count",
            "count",
            "count",
            "raise",
            "late",
            "cancel",
            "cancel",
            "timeout",
            "timeout",
            "timeout",
            "late",
        )
        return self.random.choice(kinds) if "hooks" in self.features else ""

    def _source(self, *, merged: bool, continuous: bool) -> Source:
        random = self.random
        kinds: list[SourceKind] = ["list", "generator", "iterator"]
        kinds += ["async_generator", "async_iterator"] if self._has("async", 0.7) or self._chance(0.1) else []
        kinds += ["async_generator"] * 3 if "slow reader" in self.features and self._has("async") else []
        kinds += ["pipeline"] if self._chance(0.1) else []
        sizes: tuple[int, ...] = (1, 2, 3, 5, 8, 13, 20, 25) if continuous else (0, 1, 2, 3, 5, 8, 13, 20, 25)
        if "pace" in self.features:
            sizes = 8, 20, 40
        if "many" in self.features:
            sizes = 100, 130
        if self.short:
            sizes = (1, 1, 2, 3) if "interrupted" in self.features else (1, 2, 3, 4, 5, 6)
        size = random.choice(sizes)
        bad = self._has("bad source", 0.7)
        raise_epoch = random.choice((0, 0, 1, 1, 2)) if bad and continuous else 0
        stages = self._stages(random.choice((0, 0, 1, 2)), deep=True) if merged and not self.plain_branches else ()
        return Source(
            random.choice(kinds),
            size,
            self._chance(0.12),
            random.randint(0, size) if bad and self._chance(0.7) else -1,
            bad and self._chance(0.4),
            self._pick_sleep(5, 30) if "sleep" in self.features and self._chance(0.5) else 0,
            stages,
            random.choice((0.002, 0.002, 0.02)) if "pace" in self.features else 0.002,
            raise_epoch=raise_epoch,
        )

    def _pick_sleep(self, *shares: int) -> int:
        if self.short:
            # Few items are few rolls of the dice.
            return self.random.choice((shares[-1], 100))
        return self.random.choice((*shares, 100) if "pace" in self.features else shares)

    def _limit(self, share: float) -> str:
        if not self._has("limit", share):
            return ""
        return self.random.choice(("0", "1", "3", "10", "1/10", "1/2"))

    def _stages(self, number: int, *, deep: bool = False) -> tuple[Stage, ...]:
        """Return stages that take single items. Unless they are ``deep``, batches may come out."""
        stages: list[Stage] = []
        for _ in range(number):
            if self._has("batch", 0.5):
                stages += self._batched(close=deep)
                if not isinstance(stages[-1], Disaggregate):
                    break
            elif self._has("fork", 0.4):
                stages.append(self._fork())
            else:
                stages.append(self._pipe())
        return tuple(stages)

    def _batched(self, *, close: bool) -> list[Stage]:
        """Return an aggregate, stages that take batches, and perhaps a disaggregate."""
        stages: list[Stage] = [self._aggregate(drop_last=self._chance(0.35))]
        stages += [self._batch_stage() for _ in range(self.random.choice((0, 1, 1, 2)))]
        if close or self._chance(0.4):
            stages.append(Disaggregate(self._name("d")))
        return stages

    def _aggregate(self, *, drop_last: bool) -> Aggregate:
        own = self._chance(0.7 if "hooks" in self.features else 0.3)
        return Aggregate(
            self._name("a"),
            self.random.randint(1, 3 if self.short else 5),
            drop_last,
            self.random.randrange(1, 1000) if own else 0,
            self.random.randrange(12) if own and self._has("bad source", 0.3) else -1,
        )

    def _batch_stage(self, depth: int = 0) -> Stage:
        if self._has("fork", 0.6) and depth < 2:
            paths = tuple(
                tuple(self._batch_stage(depth + 1) for _ in range(self.random.choice((1, 1, 2))))
                for _ in range(self.random.randint(1, 3))
            )
            return self._routed(paths, batched=True)
        return self._pipe(batch=True)

    def _fork(self, depth: int = 0) -> Fork:
        paths = []
        for _ in range(self.random.randint(1, 3)):
            path: list[Stage] = []
            for _ in range(self.random.choice((1, 1, 2))):
                if depth < 1 and self._chance(0.2):
                    path.append(self._fork(depth + 1))
                elif self._has("batch", 0.3):
                    path += self._batched(close=True)
                else:
                    path.append(self._pipe())
            paths.append(tuple(path))
        return self._routed(tuple(paths), batched=False)

    def _routed(self, paths: tuple[tuple[Stage, ...], ...], *, batched: bool) -> Fork:
        bad = self._has("bad source", 0.2)
        return Fork(
            self._name("f"),
            paths,
            batched,
            self._has("async", 0.4),
            self.random.randrange(1000),
            self.random.randrange(10) if bad else -1,
        )

    def _pipe(self, *, batch: bool = False) -> Pipe:
        random = self.random
        pool: Pool = "process" if self._has("process", 0.5) else "thread" if self._has("thread", 0.5) else ""
        if self._has("ranked", 0.8):
            pool = "ranked"
        if "in turns" in self.features and not pool:
            pool, self.elsewhere = ("thread" if self.elsewhere else ""), not self.elsewhere
        timed = pool != "process" and self._has("timeout", 0.8 if "overdue" in self.features else 0.6)
        forms: list[Form] = ["sync", "sync"]
        if not pool:
            forms += ["coroutine", "async"] if "async" in self.features else []
            forms += ["async_generator"] if {"async", "generator"} <= self.features else []
            # It is the same task that goes on with the next item.
            forms += ["async"] * 2 if {"async", "overdue"} <= self.features else []
            forms += ["async_generator"] * 3 if {"async", "generator", "overdue"} <= self.features else []
        forms += ["generator"] * 2 if "generator" in self.features else []
        if "mixed" in self.features and pool != "process":
            forms += ["mixed"] * 3
            forms += ["mixed_async"] * 3 if "async" in self.features and not pool else []
        if "late loop" in self.features and not pool:
            # Nothing needs an event loop until an op returns a coroutine.
            forms = ["sync", "coroutine", "coroutine"]
        form = random.choice(forms)
        op = self._op(form, batch=batch, pool=pool, timed=timed)
        if pool == "ranked":
            # A call of a shared pool takes several items if they are quick, whatever else waits.
            op = replace(op, sleep=100, sleep_seconds=0.003)
        return Pipe(
            self._name("p"),
            op,
            pool,
            random.choice(self._concurrencies(pool)),
            self._has("ordered", 0.9 if "ample" in self.features else 0.6),
            random.randint(1, 3) if self._has("retry", 0.7) else 0,
            random.choice((0.0, 0.001, 0.004)),
            self._limit(0.4),
            random.choice(("count", "count", "raise", "slow")) if self._has("on_failure", 0.6) else "",
            _TIMEOUT if timed else 0.0,
            timed and self._chance(0.7),
        )

    def _concurrencies(self, pool: Pool) -> tuple[int, ...]:
        if pool == "process":
            return 1, 2, 4, 6, 9
        if "ample" in self.features:
            return 1, 2, 3, 4, 4
        return 1, 1, 2, 3, 4

    def _op(self, form: Form, *, batch: bool, pool: str, timed: bool) -> Op:
        random = self.random
        failing = "fail" in self.features and self._chance(0.7)
        generates = form in ("generator", "async_generator", "mixed", "mixed_async")
        flaky = (failing or "retry" in self.features) and pool != "process" and not generates
        shares = (30, 100) if generates and "ample" in self.features else (5, 30)
        # Whether the composition of a batch is known is the model's to find out: such ops are given up there.
        by_batch = batch and self._chance(0.2)
        return Op(
            form,
            random.randrange(1000),
            random.choice((2, 10)) if self._has("fatal", 0.5) else 0,
            random.choice((5, 15, 40, 100)) if failing and self._chance(0.6) else 0,
            random.choice((10, 40)) if flaky else 0,
            random.randint(1, 3),
            random.choice((10, 30)) if failing and generates and pool != "process" else 0,
            random.choice((10, 30)) if self._has("drop", 0.6) else 0,
            random.choice((1, 2, 3, 3, 8) if "pace" in self.features else (1, 2, 3)) if generates else 1,
            self._pick_sleep(*shares) if self._has("sleep", 0.8 if "pace" in self.features else 0.6) else 0,
            random.choice((0.001, 0.003, 0.03) if "pace" in self.features else (0.001, 0.003)),
            random.choice((3, 10, 50 if self.short else 20) if "overdue" in self.features else (3, 10)) if timed else 0,
            random.choice((0, 0, 30, 50) if self.short else (0, 30)) if timed and "overdue" in self.features else 0,
            -1,
            by_batch,
            self._chance(0.8 if "ample" in self.features else 0.4),
        )

    def _consumer(self, *, continuous: bool) -> Consumer:
        random = self.random
        readings: list[Reading] = ["all", "all", "all", "all", "break", "break", "late", "get_item"]
        readings += ["interrupt", "interrupt" if continuous else "interrupt_readers"]
        reading: Reading = random.choice([*readings, "all" if continuous else "readers"])
        if "interrupted" in self.features:
            reading = "interrupt"
        if "slow reader" in self.features:
            reading = random.choice(("all", "all", "get_item") if continuous else ("all", "all", "readers"))
        if reading == "break" and self._chance(0.3) and "meddle" not in self.features:
            reading = random.choice(("forget", "forget", "exit", "fork", "fork"))
        pauses: tuple[int, ...] = (0, 0, 1, 8) if "pace" in self.features else (0, 0, 1)
        if "overdue" in self.features:
            pauses = (0, 8, 40)
        if "slow reader" in self.features:
            pauses = (2, 8)
        most = 4 if self.short else 12
        count = random.randint(2, 3) if reading == "readers" else random.randint(0 if reading == "break" else 1, most)
        if "interrupted" in self.features:
            # Most go on then.
            count += count % 2 * self._chance(0.7)
        return Consumer(
            reading,
            count,
            random.randint(1, 3) if continuous else 1,
            random.choice(pauses) if self.features & {"sleep", "slow reader"} else 0,
            random.choice((2, 3) if "slow reader" in self.features else (1, 2, 3)),
        )

    def _meddled(self, program: Program) -> Program:
        if "meddle" not in self.features:
            return program
        pipes = all_pipes(program)
        deeds: list[Deed] = [
            "stop",
            "stop_in_finalizer",
            "stop_in_finalizer",
            "statistics",
            "failures",
            "threads",
            "capacity",
        ]
        if "stop" in self.features:
            deeds = ["stop", "stop_in_finalizer", "stop_in_finalizer", "stop_in_finalizer", "stop_in_finalizer"]
        elif pipes:
            deeds += ["stop_in_op", "concurrency", "concurrency"]
        if any(pipe.pool == "thread" for pipe in pipes):
            deeds += ["shut_pool"]
        if any(pipe.on_failure for pipe in pipes):
            deeds += ["stop_in_on_failure"]
        meddling = tuple(self._deed(deeds, pipes) for _ in range(self.random.choice((1, 1, 2, 3))))
        if program.consumer.reading.startswith("interrupt"):
            # A Ctrl-C in the middle of a stop leaves open whether there was one.
            meddling = tuple(each for each in meddling if each.deed != "stop_in_finalizer")
        return replace(program, meddling=meddling)

    def _deed(self, deeds: Sequence[Deed], pipes: Sequence[Pipe]) -> Meddling:
        random = self.random
        deed = random.choice(deeds)
        if deed in ("stop_in_op", "stop_in_on_failure"):
            inside = [pipe for pipe in pipes if pipe.pool != "process"] or pipes
            stage = random.choice(inside).name if deed == "stop_in_op" else ""
            return Meddling(deed, random.randint(1, 8), stage)
        if deed == "stop_in_finalizer":
            return Meddling(deed, int(random.expovariate(1 / random.choice((10, 100, 500)))))
        stage = random.choice(pipes).name if deed == "concurrency" else ""
        if deed == "shut_pool":
            stage = random.choice([pipe for pipe in pipes if pipe.pool == "thread"]).name
        if deed == "capacity":
            stage = random.choice(["sink", *(pipe.name for pipe in pipes)])
        return Meddling(deed, random.choice((0, 1, 2, 5, 10, 20)), stage, random.randint(1, 6))


def _drops_last(program: Program) -> bool:
    """Return whether an aggregator of the program's has its last batch dropped."""
    return any(isinstance(stage, Aggregate) and stage.seed and stage.drop_last for stage in all_stages(program))

"""The loader whose pipelines run in actors of Ray, and the function that makes it."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from spdl._check import check_choice, check_flag, check_instance, check_number, positive, refuse
from spdl._cores import default_threads
from spdl._ranges import Ranges
from spdl._sealed import check_state, refuse_state, sealed
from spdl.pipeline import PipelineFailure, PipelineStatistics, StageStatistics, build_pipeline
from spdl.pipeline._declare.records import AggregateConfig, Collate, PipelineConfig
from spdl.pipeline._for_loaders import fingerprint_of
from spdl.pipeline._state.format import compare_fingerprints
from spdl.ray._actor import ActorJob, Begin, length_of
from spdl.ray._crew import ActorCrew, import_ray
from spdl.ray._epoch_run import EpochRun, SourcePasses, seekable_source
from spdl.ray._leases import LeaseTable, PartlyReceived

_KIND = "ray"


class EpochRest(NamedTuple):
    epoch: int
    position: int
    """The first position that was not granted."""
    out: list[tuple[int, int]]
    """The ranges below it that were not delivered."""
    parts: list[Any]
    """The delivered results of items that are not delivered as a whole, as `PartlyReceived` writes them."""
    source: Any
    """The source's state before the pass."""
    begun: bool


def write_state(left: EpochRest, fingerprint: dict[str, Any]) -> dict[str, Any]:
    return sealed(
        _KIND,
        {
            "fingerprint": fingerprint,
            "epoch": left.epoch,
            "position": left.position,
            "out": Ranges(left.out).to_state(),
            "parts": left.parts,
            "source": left.source,
        },
    )


def read_state(state: object, fingerprint: dict[str, Any], length: int | None) -> EpochRest:
    """Return what a state says, checked. TypeError if it is not a dict.

    ValueError if it is damaged, too new, or of another pipeline.
    """
    check_state("state", state, _KIND)
    assert isinstance(state, dict)
    compare_fingerprints(state.get("fingerprint"), fingerprint)
    position = state["position"]
    if length is not None and position > length:
        refuse_state("state", f"is of a longer source: it has position {position}, and this source has {length} items")
    out = Ranges.from_state(state["out"]).runs
    return EpochRest(state["epoch"], position, out, state["parts"], state["source"], begun=True)


# For all pipelines together, these are the first pipeline's value, the greatest, or the mean.
_OF_THE_FIRST = ("name",)
_GREATEST = ("elapsed",)
_MEAN = ("queue_fill",)


@dataclass(frozen=True, slots=True)
class ActorStatistics:
    """The counts of the pipeline of one actor since the actor was started.

    Attributes:
        number: The actor's number. One that takes a lost one's place has a new number.
        pid: The number of its process.
        node: The name of its machine.
        pipeline: What `Pipeline.statistics` returns there.

    Example:
        >>> from dataclasses import fields
        >>> from spdl.ray import ActorStatistics
        >>> [field.name for field in fields(ActorStatistics)]
        ['number', 'pid', 'node', 'pipeline']
    """

    number: int
    pid: int
    node: str
    pipeline: PipelineStatistics


@dataclass(frozen=True, slots=True)
class RayStatistics:
    """The counts of a loader and of its actors' pipelines.

    Attributes:
        epoch: The number of the epoch under way.
        num_delivered: Results that the consumer has received in this epoch.
        num_lost: Actors that were lost in this epoch.
        num_returned: Positions that these had been granted and had not sent, so that others were granted them.
        actors: The actors that have answered, by their numbers. Those that start, or have just been lost, are missing.
        stages: Each stage of all of these actors together: counts, seconds and concurrency are sums, ``elapsed`` is the
            oldest actor's, and ``queue_fill`` a mean. Lost actors do not count any more.

    Example:
        >>> from spdl.ray import RayStatistics
        >>> RayStatistics(epoch=0, num_delivered=0, num_lost=0, num_returned=0, actors=(), stages=()).actors
        ()
    """

    epoch: int
    num_delivered: int
    num_lost: int
    num_returned: int
    actors: tuple[ActorStatistics, ...]
    stages: tuple[StageStatistics, ...]


def merge_stages(actors: Sequence[ActorStatistics]) -> tuple[StageStatistics, ...]:
    return tuple(map(_merge, zip(*(actor.pipeline.stages for actor in actors), strict=True)))


def _merge(stages: tuple[StageStatistics, ...]) -> StageStatistics:
    merged = {}
    for name in (field.name for field in fields(StageStatistics)):
        values = [getattr(stage, name) for stage in stages]
        if name in _OF_THE_FIRST:
            merged[name] = values[0]
        elif name in _GREATEST:
            merged[name] = max(values)
        elif name in _MEAN:
            merged[name] = sum(values) / len(values)
        elif name == "durations":
            merged[name] = _merge_durations(values)
        else:
            merged[name] = sum(values)
    return StageStatistics(**merged)


def _merge_durations(each: Sequence[tuple[tuple[float, int], ...]]) -> tuple[tuple[float, int], ...]:
    bounds = sorted({bound for durations in each for bound, _ in durations})
    known = [dict(durations) for durations in each]
    return tuple((bound, sum(counts.get(bound, 0) for counts in known)) for bound in bounds)


T = TypeVar("T")

# Seconds that actors have to answer a question.
_ANSWER_SECONDS = 5.0


class RayOptions(NamedTuple):
    """How a loader works; see `run_on_ray`."""

    prefetch: int
    lease: int
    ordered: bool
    reassign: bool
    copy: bool


class RayLoader(Generic[T]):
    """An iterable over the results of a pipeline that runs in several actors of Ray. `run_on_ray` makes it.

    Each iteration is one epoch: a pass over the source. If you leave a loop and iterate again, the new loop continues
    where the first one stopped, and nothing is lost. The actors start at `start`, at `auto_stop` or at the first read.
    They end at `stop`, when the loader is collected, and when the driver ends in whatever way. No thread stays.

    One thread reads it. It cannot be pickled: each process has its own loader.

    Example:
        It needs a cluster, which ``ray.init()`` starts or connects to.

        >>> from spdl.ray import run_on_ray
        >>> with run_on_ray(config, num_actors=2).auto_stop() as loader:  # doctest: +SKIP
        ...     for batch in loader:
        ...         train(batch)
        >>> loader.state_dict()["epoch"]  # doctest: +SKIP
        1
    """

    def __init__(self, crew: ActorCrew, passes: SourcePasses, fingerprint: dict[str, Any], options: RayOptions) -> None:
        self._crew = crew
        self._passes = passes
        self._fingerprint = fingerprint
        self._options = options
        self._run: EpochRun | None = None
        self._left = EpochRest(epoch=0, position=0, out=[], parts=[], source=None, begun=False)
        # The error that each further read raises again.
        self._failure: BaseException | None = None
        weakref.finalize(self, crew.ask_to_stop).atexit = False

    # ---- running ----

    def start(self) -> None:
        """Start the actors, as far as they do not run. It does not wait for them."""
        self._crew.fill_up()

    def stop(self) -> None:
        """Stop the actors, and wait for some seconds until they have ended.

        Results that they had not delivered are not lost: a later iteration starts new actors, which return them again.
        """
        if self._run is not None:
            self._run.stop()
        else:
            self._crew.stop()

    def auto_stop(self) -> AbstractContextManager[Self]:
        """Start the actors, and stop them at the end of the ``with`` block.

        Returns:
            A context manager that yields the loader itself.
        """
        return self._auto_stop()

    @contextmanager
    def _auto_stop(self) -> Iterator[Self]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def resize(self, num_actors: int) -> None:
        """Change how many actors there are, also while it runs.

        The next read starts those that are missing. Those that are too many finish what they were granted, and end.

        Args:
            num_actors: An int of at least 1.

        Raises:
            TypeError, ValueError: If it is no such int.
        """
        self._crew.resize(positive("num_actors", num_actors))

    # ---- reading ----

    def __iter__(self) -> Iterator[T]:
        """Return an iterator over the rest of this epoch, or over the next one if it has ended."""
        return _Iterator(self)

    def _next(self) -> T:
        """Return the next result of this epoch. StopIteration at its end; the next call begins the next epoch."""
        if self._failure is not None:
            raise self._failure
        run = self._run or self._begin()
        try:
            result = run.next_result()
            if result is None:
                self._end(run)
        except Exception as error:
            self._failure = error
            self.stop()
            raise
        if result is None:
            raise StopIteration
        value: T = copy.deepcopy(result.value) if self._options.copy else result.value
        return run.hand_over(result, value)

    def _begin(self) -> EpochRun:
        left = self._left
        state = left.source if left.begun else self._passes.state()
        options = self._options
        table = LeaseTable(
            length_of(self._passes.source),
            options.lease,
            position=left.position,
            out=left.out,
            aligned=options.ordered,
        )
        self._run = EpochRun(
            table,
            PartlyReceived(left.parts),
            self._crew,
            Begin(left.epoch, state),
            prefetch=options.prefetch,
            ordered=options.ordered,
            reassign=options.reassign,
        )
        return self._run

    def _end(self, run: EpochRun) -> None:
        resumed = self._left.begun
        if not (run.delivered or resumed):
            self._check_that_not_all_failed()
        epoch, state = run.begin
        self._passes.advance(state)
        left = EpochRest(epoch=epoch + 1, position=0, out=[], parts=[], source=None, begun=False)
        self._run, self._left = None, left

    def _check_that_not_all_failed(self) -> None:
        # A loop over nothing looks like success: a wrong path or a broken op would train on no data at all.
        stages = merge_stages(self._ask())
        failed = {stage.name: stage.num_failed for stage in stages if stage.num_failed}
        if failed and not any(stage.num_dropped for stage in stages):
            counts = ", ".join(f"{number} in stage {name!r}" for name, number in failed.items())
            raise PipelineFailure(
                [
                    (
                        "ray",
                        RuntimeError(
                            f"Nothing came out of the actors' pipelines: {counts} failed. Their logs say why."
                        ),
                    )
                ]
            )

    # ---- looking at it ----

    def statistics(self) -> RayStatistics:
        """Return what this epoch and the actors' pipelines have counted. Waits some seconds for actors that are busy.

        ``spdl top`` on the machine of an actor shows its pipeline, with a row for each stage.
        """
        actors = self._ask()
        run = self._run
        if run is not None:
            run.settle()
        return RayStatistics(
            epoch=self._left.epoch,
            num_delivered=0 if run is None else run.delivered,
            num_lost=0 if run is None else run.lost,
            num_returned=0 if run is None else run.returned,
            actors=actors,
            stages=merge_stages(actors),
        )

    def _ask(self) -> tuple[ActorStatistics, ...]:
        places = {member.number: member.place for member in self._crew.members}
        answers = sorted(self._crew.statistics(_ANSWER_SECONDS).items())
        return tuple(
            ActorStatistics(number, place.pid, place.node, pipeline)
            for number, pipeline in answers
            if (place := places[number]) is not None
        )

    # ---- stopping and going on ----

    def state_dict(self) -> dict[str, Any]:
        """Return which items have been received, so that a loader of the same pipeline can continue from there.

        An item counts as received when ``next()`` has returned it, or what was made of it. The number of actors and the
        lease may be others when the state is loaded. It is as large as the items under way.

        Returns:
            A dict that `json` can write. It includes the state of the source's own ``state_dict()``, if it has one.
        """
        run = self._run
        if run is None:
            left = self._left
            if not left.begun:
                left = left._replace(source=self._passes.state())
        else:
            position, out = run.undelivered()
            left = EpochRest(run.begin.epoch, position, out, run.parts.to_state(), run.begin.state, begun=True)
        return write_state(left, self._fingerprint)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state. Call it before the first read, or between two epochs.

        Args:
            state: What `state_dict` returned, also if it went through JSON. It must come from a pipeline of the same
                stages and source.

        Raises:
            TypeError: If the state is not a dict.
            ValueError: If the state is damaged, newer than this version of the package, or of another pipeline or
                source. The loader is then unchanged.
            RuntimeError: If an epoch is under way.
        """
        left = read_state(state, self._fingerprint, length_of(self._passes.source))
        if self._run is not None:
            raise RuntimeError("An epoch is under way: load the state before the first read of a loader.")
        self._passes.load(left.source)
        self._left = left

    def __repr__(self) -> str:
        number = len(self._crew.members)
        return f"<RayLoader with {number} of {self._crew.size} actors, epoch {self._left.epoch}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("A RayLoader cannot be pickled: it belongs to the driver that made it.")


class _Iterator(Generic[T]):
    """Ends with the epoch of its first read, even if another iterator reads the last result, and stays ended."""

    def __init__(self, loader: RayLoader[T]) -> None:
        self._loader: RayLoader[T] | None = loader
        self._epoch: int | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        loader = self._loader
        if loader is None:
            raise StopIteration
        epoch = loader._left.epoch  # noqa: SLF001 - the two classes belong together, here and below.
        if self._epoch is None:
            self._epoch = epoch
        if epoch == self._epoch:
            # A context manager would be called with the item on its way, where Ctrl-C would cost it.
            try:
                return loader._next()  # noqa: SLF001
            except StopIteration:
                pass
        self._loader = None
        raise StopIteration


# Options of Ray that the loader chooses. It starts another actor for a lost one, with other work, and ends all with the
# driver; Ray would start the same one again, or leave it.
_CHOSEN = frozenset(
    {
        "concurrency_groups",
        "get_if_exists",
        "lifetime",
        "max_concurrency",
        "max_restarts",
        "max_task_retries",
        "name",
        "num_cpus",
    }
)


def run_on_ray(
    config: PipelineConfig[T],
    *,
    num_actors: int,
    num_cpus: float = 1,
    prefetch: int = 2,
    lease: int = 1024,
    order: Literal["completion", "input"] = "completion",
    on_loss: Literal["reassign", "raise"] = "reassign",
    copy: bool = False,
    num_threads: int | None = None,
    max_failures: Any = -1,
    actor_options: Mapping[str, Any] | None = None,
) -> RayLoader[T]:
    """Run a pipeline in several actors of Ray, and return an iterable over all of their results.

    Each actor is one process with the whole pipeline, threads and all. This process, the driver, grants ranges of the
    source's positions to the actors, and collects what they deliver. If an actor is lost, the positions that it had not
    sent are granted to others, and another actor is started. Each item is delivered exactly once, but for what the page
    "More than one machine" lists.

    The actors begin when the loader is first read. Programs call ``ray.init()`` before; otherwise Ray starts a cluster
    on this machine by itself.

    Args:
        config: The pipeline, as `PipelineBuilder.get_config` returns it. All of it is pickled (by Ray's cloudpickle,
            which takes lambdas). It has one source that can begin at any position: a sequence, or an iterable with a
            method ``iterate_from(position)``, such as `EpochSampler`. Each actor reads its own items from its own copy.
        num_actors: How many actors there are.
        num_cpus: The CPUs that Ray accounts to each of them.
        prefetch: How many calls for results each actor has waiting. More hide a slow network, and hold more results.
        lease: How many positions are granted at once, at most. If an actor is lost, at most what it had under way of
            two of these is done again.
        order: ``"completion"`` gives what is finished first. With ``"input"``, results come in the order of the source,
            and all stages must keep it too. No batch then has items of two leases, so `lease` has to be a multiple of
            the batch size.
        on_loss: ``"reassign"``, or ``"raise"`` to raise `ActorLostError` if an actor is lost.
        copy: Whether to copy each result. Otherwise arrays lie in Ray's shared memory: they are read-only, and occupy
            it as long as they are referred to.
        num_threads: As for `PipelineBuilder.build`, for each actor. None takes `num_cpus` and 4, at most 32.
        max_failures: As for `PipelineBuilder.build`. Each actor counts for itself.
        actor_options: Further options of Ray for the actors, such as ``resources`` or ``scheduling_strategy``. Those
            that say how often an actor is started again, how long it lives and what it is called are the loader's.

    Returns:
        The loader.

    Raises:
        ImportError: If Ray is not installed.
        TypeError: If an argument has the wrong type, or if the pipeline cannot be pickled.
        ValueError: If an argument is out of range, if the source cannot begin at any position, or if stages do not keep
            the order that was asked for.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> from spdl.pipeline import PipelineBuilder
        >>> from spdl.ray import run_on_ray
        >>> config = PipelineBuilder().add_source(range(100)).pipe(str, concurrency=4).add_sink(2).get_config()
        >>> ray.init()  # doctest: +SKIP
        >>> with run_on_ray(config, num_actors=4, num_cpus=4).auto_stop() as loader:  # doctest: +SKIP
        ...     print(len(list(loader)))
        100
    """
    ray = import_ray()
    if not isinstance(config, PipelineConfig):
        remedy = "A builder's `get_config()` makes one." if hasattr(config, "get_config") else ""
        refuse(TypeError, "config", "a PipelineConfig", config, remedy)
    size = positive("num_actors", num_actors)
    cpus = check_number("num_cpus", num_cpus)
    if cpus < 0:
        refuse(ValueError, "num_cpus", "a number of at least 0", num_cpus)
    check_choice("order", order, ("completion", "input"))
    check_choice("on_loss", on_loss, ("reassign", "raise"))
    threads = default_threads(cpus) if num_threads is None else num_threads
    positive("num_threads", threads)
    options = RayOptions(
        prefetch=positive("prefetch", prefetch),
        lease=positive("lease", lease),
        ordered=order == "input",
        reassign=on_loss == "reassign",
        copy=check_flag("copy", copy),
    )
    passes = SourcePasses(seekable_source(config))
    # Never started: it finds the mistakes, and says what it is known by.
    declared = build_pipeline(config, num_threads=threads, max_failures=max_failures)
    if options.ordered:
        _check_order(config, lease, keeps=declared.state_dict()["in_order"])
    payload = _pickle(ray, ActorJob(config, threads, max_failures, options.ordered))
    crew = ActorCrew(payload, {"num_cpus": num_cpus, **_checked(actor_options)}, size)
    return RayLoader(crew, passes, fingerprint_of(declared), options)


def _checked(actor_options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if actor_options is None:
        return {}
    check_instance("actor_options", actor_options, Mapping, "a dict of options of Ray, or None")
    chosen = sorted(_CHOSEN & actor_options.keys())
    if chosen:
        remedy = "The CPUs are an argument of `run_on_ray`." if chosen == ["num_cpus"] else ""
        refuse(
            ValueError, "actor_options", f"without {', '.join(chosen)}, which the loader chooses", actor_options, remedy
        )
    return actor_options


def _check_order(config: PipelineConfig[Any], lease: int, *, keeps: bool) -> None:
    if not keeps:
        remedy = "Give `output_order='input'` to each stage with a concurrency above 1."
        refuse(
            ValueError, "order", "'completion', since the stages do not keep the order of their input", "input", remedy
        )
    sizes = [
        stage.op.n for stage in config.pipes if isinstance(stage, AggregateConfig) and isinstance(stage.op, Collate)
    ]
    batch = math.prod(sizes)
    if lease % batch:
        accepted = f"a multiple of the {batch} items of a batch, such as {-(-lease // batch) * batch}"
        refuse(ValueError, "lease", f"{accepted}: with order='input' no batch has items of two leases", lease)


def _pickle(ray: Any, job: ActorJob) -> bytes:
    try:
        payload: bytes = ray.cloudpickle.dumps(job)
    except Exception as error:
        remedy = "Open files, connections and locks where they are used: in the op, or in an initializer."
        raise TypeError(
            f"`config` must be a pipeline that can be pickled, since each actor gets a copy of it, and it cannot: "
            f"{type(error).__name__}: {error}. {remedy}"
        ) from error
    return payload

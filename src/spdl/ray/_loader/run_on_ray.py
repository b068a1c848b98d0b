"""Makes a loader whose pipelines run in actors of Ray."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from spdl._check import check_choice, check_flag, check_instance, check_number, positive, refuse
from spdl.pipeline import build_pipeline
from spdl.pipeline._declare.aggregator import Collate
from spdl.pipeline._declare.records import AggregateConfig, PipelineConfig
from spdl.pipeline._pipeline.for_loaders import fingerprint_of
from spdl.ray._actor.messages import Job
from spdl.ray._import_ray import import_ray
from spdl.ray._loader.crew import Crew
from spdl.ray._loader.epoch_run import SourcePasses, seekable_source
from spdl.ray._loader.ray_loader import Options, RayLoader

__all__ = ["run_on_ray"]

T = TypeVar("T")

# As for a pipeline in this process: ops that wait for a disk or a network leave cores idle.
_MORE_THAN_CORES = 4
_MOST_THREADS = 32

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
    threads = min(_MOST_THREADS, math.ceil(cpus) + _MORE_THAN_CORES) if num_threads is None else num_threads
    positive("num_threads", threads)
    options = Options(
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
    payload = _pickle(ray, Job(config, threads, max_failures, options.ordered))
    crew = Crew(payload, {"num_cpus": num_cpus, **_checked(actor_options)}, size)
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


def _pickle(ray: Any, job: Job) -> bytes:
    try:
        payload: bytes = ray.cloudpickle.dumps(job)
    except Exception as error:
        remedy = "Open files, connections and locks where they are used: in the op, or in an initializer."
        raise TypeError(
            f"`config` must be a pipeline that can be pickled, since each actor gets a copy of it, and it cannot: "
            f"{type(error).__name__}: {error}. {remedy}"
        ) from error
    return payload

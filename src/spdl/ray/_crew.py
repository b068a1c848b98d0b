"""The actors: starts them, calls them, and notices when one is gone."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from spdl._ranges import Range
from spdl.pipeline import PipelineStatistics
from spdl.pipeline._world import Thread
from spdl.ray._actor import ActorReport, ActorResult, ActorWork, SpdlPipeline

Entry: TypeAlias = ActorResult | list[Range]
"""A result, or positions that have nothing left."""


def import_ray(name: str = "ray") -> Any:
    """Return Ray, or one of its modules. ImportError if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"spdl.ray needs Ray, and {error.name!r} is not installed: pip install 'spdl-turbo[ray]'"
        ) from error


class ActorLostError(RuntimeError):
    """An actor has ended before its work was done, and no actor takes its place.

    It is raised with ``on_loss="raise"``, and if one actor after the other ends without having returned anything. The
    loader's `state_dict` is still exact, so a new loader can continue from there.

    Example:
        >>> from spdl.ray import ActorLostError
        >>> issubclass(ActorLostError, RuntimeError)
        True
    """


class Uninterrupted:
    """Calls functions in separate threads, which end at once: only the main thread is interrupted.

    If that happens while it waits for a call, the call continues.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, wait for it, and raise its exception."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - raised below.
                raised.append(error)

        self.wait()
        self._thread = thread = Thread(target=run, name="spdl_ray_call", daemon=True)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]

    def wait(self) -> None:
        thread = self._thread
        if thread is not None and thread.ident is not None:
            thread.join()


class ActorPlace(NamedTuple):
    pid: int
    node: str


class Stretch:
    """The results of one granted range, in its order."""

    __slots__ = ("entries", "over")

    def __init__(self) -> None:
        # Those that have come and were not taken.
        self.entries: deque[Entry] = deque()
        # Whether nothing more will come.
        self.over = False

    def end(self) -> None:
        self.over = True


class ActorMember:
    """The calls sent to an actor, and their answers.

    Attributes:
        number: No other actor has had it.
        actor: Ray's handle.
        begun: Ray's reference to what its start returns.
        place: The actor's process and machine; None while it starts.
        calls: Ray's references to what it will return, the oldest first.
        epoch: The pass of the last grant; None before the first one.
        retiring: Whether it gets no more work.
        stretches: The ranges that it was granted, one for each flush that is not over.
        useful: Whether it has returned anything.
        must_flush: Whether something was granted since the last flush.
        flushed: How many flushes are over.
    """

    def __init__(self, number: int, actor: Any, begun: Any) -> None:
        self.number = number
        self.actor = actor
        self.begun = begun
        self.place: ActorPlace | None = None
        self.calls: deque[Any] = deque()
        self.epoch: int | None = None
        self.retiring = False
        self.stretches: deque[Stretch] = deque()
        self.useful = False
        self.must_flush = False
        self.flushed = 0
        # How many flushes were asked for; how many positions were granted in all, and taken of them.
        self._asked = self._granted = self._fed = 0

    def next_ref(self) -> Any:
        """Return the reference that comes next; None if there is no open call."""
        if self.place is None:
            return self.begun
        return self.calls[0] if self.calls else None

    def note_begun(self, place: ActorPlace) -> None:
        self.place = place

    def note_grant(self, epoch: int, start: int, stop: int, stretch: Stretch | None) -> None:
        """Note what it was granted, and the place for its results if a separate flush follows."""
        self.epoch = epoch
        self._granted += stop - start
        if stretch is None:
            self.must_flush = True
        else:
            self.stretches.append(stretch)
            self._asked += 1

    def note_flush(self) -> None:
        self.must_flush = False
        self._asked += 1

    def note_report(self, report: ActorReport) -> None:
        self.useful = self.useful or bool(report.results or report.done)
        self._fed, self.flushed = report.fed, report.flushed

    def unfed(self) -> int:
        """Return how many positions it has yet to begin with, as far as is known."""
        return self._granted - self._fed

    def flushes_pending(self) -> int:
        return self._asked - self.flushed


# Seconds that actors have to end in order before they are killed.
_STOP_SECONDS = 3.0

# Ray waits for the first result that an actor has finished, even if that lies on a machine that is lost, which it is
# slow to notice. So it is asked again now and then: others have finished theirs by then.
_ASK_SECONDS = 0.25


class Loss(NamedTuple):
    """Says why an actor is gone, in words."""

    reason: str


class ActorCrew:
    """A number of actors, with the pickled job and Ray's options for each of them."""

    def __init__(self, payload: bytes, options: Mapping[str, Any], size: int) -> None:
        self._ray = import_ray()
        self._payload = payload
        self._options = dict(options)
        self.size = size
        self.members: list[ActorMember] = []
        self._number = 0
        self._uninterrupted = Uninterrupted()
        self._class: Any = None
        self._stored: Any = None

    def resize(self, size: int) -> None:
        """Change how many actors there shall be. Those that are too many get no more work."""
        self.size = size

    def fill_up(self) -> None:
        """Start as many actors as are missing, and say which are too many."""
        working = [member for member in self.members if not member.retiring]
        for member in working[self.size :]:
            member.retiring = True
        for _ in range(self.size - len(working)):
            # An actor that is started and then not recorded would never end.
            self._uninterrupted.call(self._start_one)

    def _start_one(self) -> None:
        if self._class is None:
            self._stored = self._ray.put(self._payload)
            # Work and questions are taken in while a call waits for results.
            make = self._ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={"aside": 1})
            self._class = make(SpdlPipeline).options(**self._options)
        actor = self._class.remote(self._stored)
        self.members.append(ActorMember(self._number, actor, actor.begin.remote()))
        self._number += 1

    def send(self, member: ActorMember, work: ActorWork) -> None:
        # Its result is of no interest: if it fails, the actor is gone, and the next call says so.
        member.actor.grant.options(concurrency_group="aside").remote(work)

    def call(self, member: ActorMember) -> None:
        member.calls.append(member.actor.pull.remote())

    def wait(self) -> tuple[ActorMember, ActorReport | ActorPlace | Loss]:
        """Wait until an actor has returned something, or is gone. Return it, and what it has returned.

        The same is returned again until that is noted. The exception of its pipeline is raised.
        """
        refs = {ref: member for member in self.members if (ref := member.next_ref()) is not None}
        ready: list[Any] = []
        while not ready:
            ready, _ = self._ray.wait(list(refs), num_returns=1, timeout=_ASK_SECONDS)
        member = refs[ready[0]]
        # If several are ready, the first in the list comes, so it goes to the end.
        self.members = [*(each for each in self.members if each is not member), member]
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(ready[0])
        except errors.RayTaskError as error:
            self.drop(member)
            raise _cause(error) from None
        except errors.RayActorError as error:
            if (cause := _init_error(error, errors)) is not None:
                self.drop(member)
                raise cause from None
            return member, Loss(_first_line(error))
        except errors.RaySystemError as error:
            # Another actor's result could not be read either.
            self.drop(member)
            raise RuntimeError(f"This process cannot unpickle a result of an actor: {error}") from None
        except errors.RayError as error:
            # The object is lost, with the machine that had it.
            return member, Loss(_first_line(error))
        if member.place is None:
            return member, ActorPlace(*answer)
        report: ActorReport = answer
        return member, report

    def drop(self, member: ActorMember) -> None:
        """Forget an actor, and make sure that it is gone."""
        self._ray.kill(member.actor)
        self.members.remove(member)

    def statistics(self, seconds: float) -> dict[int, PipelineStatistics]:
        """Return what the pipelines of those actors have counted that answer in time, by their numbers."""
        refs = {
            member.actor.statistics.options(concurrency_group="aside").remote(): member.number
            for member in self.members
            if member.place is not None
        }
        found: dict[int, PipelineStatistics] = {}
        if refs:
            ready, _ = self._ray.wait(list(refs), num_returns=len(refs), timeout=seconds)
            for ref in ready:
                # It may be gone by now, which the next call says.
                with contextlib.suppress(self._ray.exceptions.RayError):
                    found[refs[ref]] = self._ray.get(ref)
        return found

    def stop(self) -> None:
        """Stop all actors, and wait until they are gone or have had their time."""
        self._uninterrupted.wait()
        refs = self.ask_to_stop()
        members, self.members = self.members, []
        self._stored = self._class = None
        if refs:
            self._ray.wait(refs, num_returns=len(refs), timeout=_STOP_SECONDS)
        for member in members:
            self._ray.kill(member.actor)

    def stop_one(self, member: ActorMember) -> None:
        # It ends when no reference to it is left, and its call has returned.
        member.actor.stop.options(concurrency_group="aside").remote()
        self.members.remove(member)

    def ask_to_stop(self) -> list[Any]:
        """Have all actors end. It does not wait for them, so that a finalizer may call it."""
        if not self._ray.is_initialized():
            return []
        return [member.actor.stop.options(concurrency_group="aside").remote() for member in self.members]


def _cause(error: Any) -> BaseException:
    """Return what the pipeline has raised, with the actor's traceback as a note."""
    cause: BaseException = error.cause if isinstance(error.cause, BaseException) else error
    if cause is not error:
        # If Ray's error also has the cause's class, it has the text only.
        text = error.traceback_str if type(error).__name__ == "RayTaskError" else str(error)
        cause.add_note(f"In an actor of Ray:\n{text}")
    return cause


def _init_error(error: Any, errors: Any) -> BaseException | None:
    """Return what the actor's constructor has raised; None if the actor is gone for another reason."""
    # Ray tells it by the text alone, unless it has the exception.
    cause = getattr(error, "cause", None) or error.__cause__
    if isinstance(cause, errors.RayTaskError):
        return _cause(cause)
    if "error raised in its creation task" in str(error):
        return RuntimeError(f"An actor could not be made of the pipeline: {error}")
    return None


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0].rstrip('.')}"

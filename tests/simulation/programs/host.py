"""What a program needs of the world besides the pipeline: time, other threads' turns and pools."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor

from spdl.pipeline import PriorityThreadPoolExecutor
from tests.simulation.programs.inside import PriorityPool, world


class Host(ABC):
    """The world that a program runs in. Threads, locks and clocks come from `spdl.pipeline._world`.

    Attributes:
        simulated: Whether the world is simulated.
        exact_time: Whether time passes only when everybody waits, so that deadlines are exact.
        patience: Seconds after which a program hangs.
    """

    simulated: bool = False
    exact_time: bool = False
    patience: float = 20.0

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let this thread sleep."""

    @abstractmethod
    def step(self) -> None:
        """Offer other threads the turn."""

    @abstractmethod
    def thread_pool(self, workers: int, *, fails_at: int = -1) -> Executor:
        """Return a pool of threads. `release` is called with it.

        Args:
            workers: How many threads it has.
            fails_at: The number of the call that it cannot make, for want of a thread, if it is simulated.
        """

    def ranked_pool(self, workers: int) -> PriorityPool:
        """Return a pool of threads that ranks the calls of several stages. It is shut down by the caller."""
        return PriorityThreadPoolExecutor(workers)

    @abstractmethod
    def process_pool(self, workers: int) -> Executor:
        """Return a pool of processes. `release` is called with it."""

    def release(self, pool: Executor) -> None:
        """Take back a pool that is not needed any more."""
        pool.shutdown()

    def interrupt_at(self, count: int) -> bool:
        """Arrange for a KeyboardInterrupt in this thread once it has read so many items.

        Returns:
            Whether the host will raise it. If not, the loop that reads raises it itself.
        """
        return False

    def call_within(self, steps: int, finalizer: Callable[[], None]) -> None:
        """Have something called in whichever thread runs after so many steps. Without a simulation it comes at once."""
        finalizer()

    def begin_focus(self, stop: Callable[[], None], stop_elsewhere: Callable[[], None]) -> None:  # noqa: B027 - as below.
        """Have something happen at a place of the engine from now on, if the host has one in mind.

        Args:
            stop: Calls ``stop()`` as a finalizer does.
            stop_elsewhere: Has another thread call it.
        """

    def end_focus(self) -> None:  # noqa: B027 - only simulated ones have such places.
        """Have nothing happen any more."""

    def note_stop(self) -> None:  # noqa: B027 - as above.
        """Note that ``stop()`` has returned to a finalizer."""

    def is_late(self) -> bool:
        """Return whether this thread of the pipeline's has had its lock since then, and so ought to know of it."""
        return False

    def exit(self) -> bool:
        """Do what happens at the interpreter's exit. Return whether it is possible."""
        return False

    def fork(self) -> bool:
        """Go on as a forked child. Return whether it is possible."""
        return False

    def make_lock_slow(self) -> None:  # noqa: B027 - only simulated ones can.
        """Have the pipeline's lock waited for from time to time."""

    def now(self) -> float:
        """Return the time. In simulated worlds it does not pass by asking."""
        return world.monotonic()

    def call_at_rest(self, look: Callable[[float], None]) -> bool:
        """Have ``look`` called when everybody waits, with the seconds that pass then.

        Returns:
            Whether it is called, and time passes only then.
        """
        return False

    def watch(self, work: Callable[[], None]) -> str:
        """Run ``work`` in a thread. Return where the threads are if it takes longer than the patience, else ''."""
        thread = world.Thread(target=work, name="program", daemon=True)
        thread.start()
        thread.join(self.patience)
        return self.describe_threads() if thread.is_alive() else ""

    def describe_threads(self) -> str:
        """Return where all threads are."""
        return "no stacks"

    def threads_left(self) -> list[str]:
        """Return the names of the pipelines' threads that are alive."""
        return []

"""What a program needs of the world besides the pipeline: time, other threads' turns and pools."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor

from spdl.pipeline import _world


class Host(ABC):
    """The world that a program runs in. Threads, locks and clocks come from `spdl.pipeline._world`.

    Attributes:
        simulated: Whether time passes only when everybody waits, so that deadlines are exact.
        patience: Seconds after which a program hangs.
    """

    simulated: bool = False
    patience: float = 20.0

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let this thread sleep."""

    @abstractmethod
    def step(self) -> None:
        """Offer other threads the turn."""

    @abstractmethod
    def thread_pool(self, workers: int) -> Executor:
        """Return a pool of threads. `release` is called with it."""

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

    def now(self) -> float:
        """Return the time. In simulated worlds it does not pass by asking."""
        return _world.monotonic()

    def call_at_rest(self, look: Callable[[float], None]) -> bool:
        """Have ``look`` called when everybody waits, with the seconds that pass then.

        Returns:
            Whether it is called, and time passes only then.
        """
        return False

    def watch(self, work: Callable[[], None]) -> str:
        """Run ``work`` in a thread. Return where the threads are if it takes longer than the patience, else ''."""
        thread = _world.Thread(target=work, name="program", daemon=True)
        thread.start()
        thread.join(self.patience)
        return self.describe_threads() if thread.is_alive() else ""

    def describe_threads(self) -> str:
        """Return where all threads are."""
        return "no stacks"

    def threads_left(self) -> list[str]:
        """Return the names of the pipelines' threads that are alive."""
        return []

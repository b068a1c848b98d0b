"""Which of many short ops are measured."""

from __future__ import annotations

__all__ = ["AT_LEAST_ONE_OF", "SHORT", "Sampling"]

# Where ops are shorter than this, and follow each other as quickly, only some are measured: measuring takes some 3
# microseconds, most of it for the thread's CPU clock. It is the end of a histogram's bin.
SHORT = 13 * 2.0**-18

# The first events are all measured, so that short runs are reported exactly.
_ALL_OF_FIRST = 256

# Then one in so many seconds is, which costs a stage some tenths of a percent of its time, ...
_PERIOD = 2e-3

# ... but at least one of so many: they may follow each other less quickly from now on.
_MOST = 512
AT_LEAST_ONE_OF = 2 * _MOST


class Sampling:
    """Chooses what is measured of a sequence of events, from how quickly they follow each other."""

    __slots__ = ("_count", "_now", "_state")

    def __init__(self) -> None:
        self._now = 0.0
        self._count = 0
        self._state = 1

    def weight(self, now: float, count: int) -> int:
        """Return how many events the next measured one stands for; 1 if all are to be measured.

        Args:
            now: The time, on any clock.
            count: How many events there were.
        """
        pace = (now - self._now) / max(1, count - self._count)
        self._now, self._count = now, count
        if pace >= SHORT or count < _ALL_OF_FIRST:
            return 1
        return max(2, min(_MOST, int(_PERIOD / max(pace, 1e-9))))

    def stride(self, weight: int) -> int:
        """Return the number of events until the next measured one: ``weight`` on average.

        It is pseudo-random: a constant stride would see all or none of what happens at every 64th event, and batches
        often have such a size.
        """
        # Lehmer's generator, with the multiplier of Park, Miller and Stockmeyer.
        self._state = self._state * 48271 % 0x7FFFFFFF
        return 1 + self._state % (2 * weight - 1)

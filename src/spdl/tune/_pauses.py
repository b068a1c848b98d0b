"""Leaves out the time in which the consumer does something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._observation import Observation

__all__ = ["Pauses"]

# A consumer that has read nothing for so many seconds, though there was something, is not slow: it validates, saves a
# checkpoint, or waits for a person in a debugger. That says nothing about the limits.
_PAUSE = 1.0


class Pauses:
    """Cuts pauses of the consumer out of the observations, as if the clocks had stood still."""

    def __init__(self) -> None:
        # The last observation that found something read, or the consumer waiting.
        self._active: Observation | None = None
        self._time = self._cpu = self._coreless = self._source = self._short = 0.0

    def without(self, observation: Observation) -> Observation | None:
        """Return an observation by clocks that stand still in pauses; None if nothing was read since the last one."""
        active = self._active
        if active is not None:
            if observation.read == active.read and not observation.waits:
                return None
            if observation.time - active.time > _PAUSE and not active.waits:
                self._time += observation.time - active.time
                self._cpu += observation.cpu - active.cpu
                self._coreless += observation.coreless - active.coreless
                self._source += observation.source - active.source
                self._short += observation.short - active.short
        self._active = observation
        return observation._replace(
            time=observation.time - self._time,
            cpu=observation.cpu - self._cpu,
            coreless=observation.coreless - self._coreless,
            source=observation.source - self._source,
            short=observation.short - self._short,
        )

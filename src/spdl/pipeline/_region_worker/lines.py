"""What a worker logs."""

from __future__ import annotations

import logging
from collections import deque

__all__ = ["Lines"]


class Lines(logging.Handler):
    """Keeps the lines that the pipeline logs, for the process or interpreter that the user watches."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[tuple[int, str]] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append((record.levelno, self.format(record)))

    def take_all(self) -> Lines:
        """Have all that is logged from now on come here and nowhere else."""
        logger = logging.getLogger("spdl.pipeline")
        logger.addHandler(self)
        logger.propagate = False
        return self

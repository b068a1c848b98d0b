"""The comparison: contenders take turns over the same images, and the medians of their turns are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from spdl.cli._errors import FAILED, CommandError
from spdl.cli._peers import PeerUnavailable, own_environment, reference_environment, torch_environment
from spdl.cli._text import number, several
from spdl.cli._turn import Turn, TurnFailed, take_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.cli._console import Console
    from spdl.cli._peers import Environment
    from spdl.cli._turn import Work

WORKERS_TRIED = (1, 2, 4, 8)
TRIAL_SECONDS = 1.5


@dataclass
class Contender:
    """A loader in the comparison, with its turns so far; every property is the median over them.

    Attributes:
        environment: Where it runs.
        workers: Threads or processes it uses.
        trials: Images/s in the trials, by number of workers; empty if the number was given.
        turns: What its turns gave, one per round.
    """

    environment: Environment
    workers: int = 0
    trials: dict[int, float] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Itself with its version."""
        return self.turns[0].contender if self.turns else self.environment.label

    @property
    def images_per_second(self) -> float:
        """Images per second of the clock."""
        return median(turn.images / turn.seconds for turn in self.turns)

    @property
    def images_per_cpu_second(self) -> float:
        """Images per second of processor time."""
        return median(turn.images / turn.cpu_seconds for turn in self.turns)

    @property
    def first_batch_seconds(self) -> float:
        """From the start of the workers to the first batch."""
        return median(turn.first_batch_seconds for turn in self.turns)

    @property
    def peak_memory(self) -> float | None:
        """All its processes together, libraries included, in bytes; None where the system does not tell."""
        return self._memory([turn.peak_memory for turn in self.turns])

    @property
    def memory_before(self) -> float | None:
        """The same when everything was imported and nothing had begun."""
        return self._memory([turn.memory_before for turn in self.turns])

    @staticmethod
    def _memory(sizes: list[int | None]) -> float | None:
        known = [size for size in sizes if size is not None]
        return median(known) if known else None


@dataclass
class Comparison:
    """The contenders that finished, ours first, and why others did not.

    Attributes:
        contenders: Each with at least one turn.
        absent: The reason in one line, by the contender's label.
        interrupted: Ctrl-C ended it early.
    """

    contenders: list[Contender]
    absent: dict[str, str]
    interrupted: bool = False


def compare(work: Work, *, workers: int | None, seconds: float, rounds: int, console: Console) -> Comparison:
    """Let us, PyTorch's DataLoader and the reference load the same images in turns.

    Args:
        work: What everyone does.
        workers: Threads or processes of each; None lets each be tried at 1, 2, 4 and 8 and run at its best.
        seconds: Length of a turn.
        rounds: Turns of each.
        console: Where the progress is told.

    Returns:
        What was measured. A peer that cannot be installed or run is absent from it; Ctrl-C keeps the rounds so far.

    Raises:
        CommandError: Our own turn failed.
    """
    comparison = Comparison([], {})
    try:
        comparison.contenders = _line_up(comparison, console)
        if workers is None:
            tried = ", ".join(map(str, WORKERS_TRIED))
            console.print(f"choosing each loader's number of workers: {tried} for {TRIAL_SECONDS} s each")
        for contender in list(comparison.contenders):
            _attempt(comparison, contender, console, lambda it: _choose_workers(it, work, workers, console))
        for index in range(rounds):
            for contender in list(comparison.contenders):
                _attempt(comparison, contender, console, lambda it: _add_turn(it, work, seconds))
            rates = ", ".join(f"{it.environment.label} {number(_latest(it))}" for it in comparison.contenders)
            console.print(f"round {index + 1} of {rounds}, images/s: {rates}")
    except KeyboardInterrupt:
        comparison.interrupted = True
    comparison.contenders = [it for it in comparison.contenders if it.turns]
    return comparison


def _line_up(comparison: Comparison, console: Console) -> list[Contender]:
    contenders = [Contender(own_environment())]
    for label, environment in (("PyTorch", torch_environment), ("spdl 0.8.0", reference_environment)):
        try:
            contenders.append(Contender(environment(console)))
        except PeerUnavailable as reason:
            _leave_out(comparison, label, str(reason), console)
    return contenders


def _attempt(
    comparison: Comparison, contender: Contender, console: Console, action: Callable[[Contender], None]
) -> None:
    try:
        action(contender)
    except TurnFailed as reason:
        if contender is comparison.contenders[0]:
            raise CommandError(f"our own turn in the comparison failed: {reason}", exit_status=FAILED) from reason
        comparison.contenders.remove(contender)
        _leave_out(comparison, contender.environment.label, str(reason), console)


def _leave_out(comparison: Comparison, label: str, reason: str, console: Console) -> None:
    comparison.absent[label] = reason
    console.print(f"{label} takes no part: {reason}")


def _choose_workers(contender: Contender, work: Work, workers: int | None, console: Console) -> None:
    if workers is not None:
        contender.workers = workers
        return
    for tried in WORKERS_TRIED:
        turn = take_turn(contender.environment, work, workers=tried, seconds=TRIAL_SECONDS)
        contender.trials[tried] = turn.images / turn.seconds
    contender.workers = max(contender.trials, key=contender.trials.__getitem__)
    rates = ", ".join(number(rate) for rate in contender.trials.values())
    kind = contender.environment.worker
    console.print(f"  {contender.environment.label}: {rates} images/s; runs with {several(contender.workers, kind)}")


def _add_turn(contender: Contender, work: Work, seconds: float) -> None:
    contender.turns.append(take_turn(contender.environment, work, workers=contender.workers, seconds=seconds))


def _latest(contender: Contender) -> float:
    turn = contender.turns[-1]
    return turn.images / turn.seconds

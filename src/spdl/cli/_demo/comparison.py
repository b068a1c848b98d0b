"""Compare contenders: they take turns over the same images, and the medians of their turns are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from spdl.cli._common.console import FAILED, CommandError, Console
from spdl.cli._common.text import number, several
from spdl.cli._demo.turn import (
    Environment,
    ImageWork,
    PeerUnavailable,
    Turn,
    TurnFailed,
    own_environment,
    reference_environment,
    take_turn,
    torch_environment,
)

WORKERS_TRIED = (1, 2, 4, 8)
TRIAL_SECONDS = 1.0
TRIALS = 2
"""Trials of each number of workers, far apart. The better one counts, as other programs can only slow a trial down."""


@dataclass
class Contender:
    """A loader in the comparison, with its turns so far.

    Attributes:
        environment: The environment that it runs in.
        workers: The number of threads or processes that it uses.
        trials: Images/s in the best trial, by number of workers. Empty if the number was given.
        turns: The results of its turns, one per round.
    """

    environment: Environment
    workers: int = 0
    trials: dict[int, float] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The contender's name with its version."""
        return self.turns[0].contender if self.turns else self.environment.label


@dataclass
class Comparison:
    """The contenders that finished, ours first, and why the others did not.

    Attributes:
        contenders: The contenders, each with at least one turn.
        absent: The reason for each absence in one line, by the contender's label.
        interrupted: Whether Ctrl-C ended the comparison early.
    """

    contenders: list[Contender]
    absent: dict[str, str]
    interrupted: bool = False


def compare(
    work: ImageWork, *, workers: int | None, seconds: float, rounds: int, console: Console, install_large: bool
) -> Comparison:
    """Let this package, PyTorch's DataLoader and the reference load the same images in turns.

    Args:
        work: The work that every contender does.
        workers: Threads or processes of each. If None, each is tried at 1, 2, 4 and 8 and runs at its best number.
        seconds: Length of a turn.
        rounds: Turns of each contender.
        console: The console for progress messages.
        install_large: Whether to install peers of more than 100 MB, too.

    Returns:
        The measurements. A peer that cannot be installed or run is absent. After Ctrl-C, the rounds so far are kept.

    Raises:
        CommandError: Our own turn failed.
    """
    contest = _Contest(work, console)
    try:
        contest.line_up(install_large=install_large)
        if workers is None:
            contest.choose_workers()
        else:
            for contender in contest.contenders:
                contender.workers = workers
        for index in range(rounds):
            contest.play_round(f"round {index + 1} of {rounds}", seconds)
    except KeyboardInterrupt:
        contest.interrupted = True
        console.print("interrupted: the comparison holds the turns up to then")
    return Comparison([it for it in contest.contenders if it.turns], contest.absent, contest.interrupted)


class _Contest:
    def __init__(self, work: ImageWork, console: Console) -> None:
        self._work = work
        self._console = console
        self.contenders = [Contender(own_environment())]
        self.absent: dict[str, str] = {}
        self.interrupted = False

    def line_up(self, *, install_large: bool) -> None:
        makers: dict[str, Callable[[Console], Environment]] = {
            "PyTorch DataLoader": partial(torch_environment, install=install_large),
            "spdl 0.8.0": reference_environment,
        }
        for label, make in makers.items():
            with self._console.working(f"preparing {label}"):
                try:
                    self.contenders.append(Contender(make(self._console)))
                except PeerUnavailable as reason:
                    self._leave_out(label, str(reason))

    def choose_workers(self) -> None:
        tried = ", ".join(map(str, WORKERS_TRIED))
        self._console.print(f"each loader tries {tried} workers and keeps the fastest by images/s:")
        for workers in WORKERS_TRIED * TRIALS:
            for contender in list(self.contenders):
                if turn := self._turn(contender, workers, TRIAL_SECONDS, "trial"):
                    rate = turn.images / turn.seconds
                    contender.trials[workers] = max(rate, contender.trials.get(workers, 0.0))
        for contender in self.contenders:
            contender.workers = max(contender.trials, key=contender.trials.__getitem__)
            rates = ", ".join(number(rate) for rate in contender.trials.values())
            kept = several(contender.workers, contender.environment.worker)
            self._console.print(f"  {contender.environment.label}: {rates}; keeps {kept}")

    def play_round(self, name: str, seconds: float) -> None:
        rates = []
        for contender in list(self.contenders):
            if turn := self._turn(contender, contender.workers, seconds, name):
                contender.turns.append(turn)
                rates.append(f"{contender.environment.label} {number(turn.images / turn.seconds)}")
        self._console.print(f"{name}, images/s: {', '.join(rates)}")

    def _turn(self, contender: Contender, workers: int, seconds: float, name: str) -> Turn | None:
        """Return the result of the turn. If it failed, drop the contender from the contest and return None."""
        environment = contender.environment
        try:
            with self._console.working(f"{name}: {environment.label} with {several(workers, environment.worker)}"):
                return take_turn(environment, self._work, workers=workers, seconds=seconds)
        except TurnFailed as reason:
            if contender is self.contenders[0]:
                raise CommandError(f"our own turn in the comparison failed: {reason}", exit_status=FAILED) from reason
            self.contenders.remove(contender)
            self._leave_out(environment.label, str(reason))
            return None

    def _leave_out(self, label: str, reason: str) -> None:
        self.absent[label] = reason
        self._console.print(f"{label} takes no part: {reason}")

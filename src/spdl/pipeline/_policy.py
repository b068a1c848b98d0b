"""What a stage does about items that fail: how many it bears, how often it tries, whom it tells."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from ._locate import callers_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ._node import Node
    from ._overtime import OnTimeout
    from ._quarantine import FailedItem

__all__ = ["BEAR_ALL", "FailurePolicy", "MaxFailures", "OnFailure", "Tally", "check_max_failures", "check_policy"]

MaxFailures: TypeAlias = "int | Fraction"
OnFailure: TypeAlias = "Callable[[FailedItem], object]"

# A share of failures says nothing before this many items were tried.
_ENOUGH = 100

_ON_TIMEOUT = ("report", "drop")


def _is_fraction(value: object) -> TypeGuard[Fraction]:
    # Whoever has a fraction has imported its module, which takes 3 ms that others need not pay.
    module = sys.modules.get("fractions")
    return module is not None and isinstance(value, module.Fraction)


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """A stage's own policy.

    Attributes:
        max_failures: How many items may fail, or which share of them; None leaves it to the pipeline's limit.
        retries: How many times a failed item is tried again.
        retry_delay: Seconds before the first retry; each further one waits twice as long.
        on_failure: Called with each item that is given up.
        timeout: Seconds that one run of the op may take, or None.
        on_timeout: Whether an op that takes longer is only reported, or written off and its item dropped.
    """

    max_failures: MaxFailures | None = None
    retries: int = 0
    retry_delay: float = 0.1
    on_failure: OnFailure | None = None
    timeout: float | None = None
    on_timeout: OnTimeout = "report"


# The default: no limit of its own, no retries, nobody to tell.
BEAR_ALL = FailurePolicy()


class Tally:
    """The failures that one limit applies to: a stage's, or those of all stages without one of their own.

    Guarded by the engine's lock.
    """

    __slots__ = ("limit", "nodes")

    def __init__(self, limit: MaxFailures) -> None:
        self.limit = limit
        self.nodes: list[Node] = []

    def verdict(self) -> str | None:
        """What says that there are more failures than the limit bears, or None if there are not."""
        limit = self.limit
        failures = sum(node.failed for node in self.nodes)
        if _is_fraction(limit):
            tried = failures + sum(node.completed for node in self.nodes)
            if tried < _ENOUGH or failures * limit.denominator <= limit.numerator * tried:
                return None
            share = 100 * failures / tried
            return f"failed {failures} times out of {tried} invocations ({share:.1f} %), more than {limit}"
        if 0 <= limit < failures:
            return f"failed {failures} times, which exceeds the threshold ({limit})"
        return None


def check_max_failures(value: object) -> MaxFailures:
    """Return the value if it can be a limit.

    Raises:
        TypeError: If it is neither an int nor a Fraction. A float is refused because 1.0 could mean one or all.
        ValueError: If it is a Fraction outside (0, 1].
    """
    if _is_fraction(value):
        if not 0 < value <= 1:
            raise ValueError(
                f"`max_failures` as a Fraction must be above 0 and at most 1, got {value} ({callers_line()})."
            )
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"`max_failures` must be an int (negative: no limit) or a fractions.Fraction, got {value!r} "
            f"({callers_line()})."
        )
    return value


def check_policy(policy: FailurePolicy) -> FailurePolicy:
    """Return the policy, if its values are what `PipelineBuilder.pipe` says.

    Raises:
        TypeError, ValueError: If one of them is not.
    """
    retries: object = policy.retries
    if isinstance(retries, bool) or not isinstance(retries, int):
        raise TypeError(f"`retries` must be an int of at least 0, got {retries!r} ({callers_line()}).")
    if retries < 0:
        raise ValueError(f"`retries` must be an int of at least 0, got {retries} ({callers_line()}).")
    _check_seconds("retry_delay", policy.retry_delay)
    if policy.timeout is not None and _check_seconds("timeout", policy.timeout) == 0:
        raise ValueError(f"`timeout` must be more than 0 seconds, got {policy.timeout} ({callers_line()}).")
    if policy.on_timeout not in _ON_TIMEOUT:
        raise ValueError(f"`on_timeout` must be one of {_ON_TIMEOUT}, got {policy.on_timeout!r} ({callers_line()}).")
    if policy.on_failure is not None and not callable(policy.on_failure):
        raise TypeError(f"`on_failure` must be callable, got {type(policy.on_failure).__name__} ({callers_line()}).")
    if policy.max_failures is not None:
        check_max_failures(policy.max_failures)
    return policy


def _check_seconds(argument: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{argument}` must be a number of seconds, got {value!r} ({callers_line()}).")
    if not 0 <= value < float("inf"):
        raise ValueError(f"`{argument}` must be finite and not negative, got {value} ({callers_line()}).")
    return value

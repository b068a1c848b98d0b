"""The failure policy of a stage: how many items may fail, how often they are retried, and who is notified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from spdl._check import check_int, check_max_failures, check_seconds, refuse

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from spdl.pipeline._declare.failed_item import FailedItem

__all__ = [
    "DEFAULT_POLICY",
    "FailurePolicy",
    "MaxFailures",
    "OnFailure",
    "OnTimeout",
    "check_policy",
]

MaxFailures: TypeAlias = "int | Fraction"
OnFailure: TypeAlias = "Callable[[FailedItem], object]"
OnTimeout: TypeAlias = Literal["report", "drop"]

_ON_TIMEOUT = ("report", "drop")


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """A stage's own policy.

    Attributes:
        max_failures: How many items may fail, or which share of them. None leaves it to the pipeline's
            ``max_failures``.
        retries: How many times a failed item is tried again.
        retry_delay: Seconds before the first retry; each further retry waits twice as long.
        on_failure: Called with each item that is given up.
        timeout: Seconds that one run of the op may take, or None.
        on_timeout: ``"report"`` if an op that takes longer is only reported, ``"drop"`` if it is abandoned and its
            item dropped.
    """

    max_failures: MaxFailures | None = None
    retries: int = 0
    retry_delay: float = 0.1
    on_failure: OnFailure | None = None
    timeout: float | None = None
    on_timeout: OnTimeout = "report"


# No maximum of its own, no retries, no callback, no timeout.
DEFAULT_POLICY = FailurePolicy()


def check_policy(policy: FailurePolicy) -> FailurePolicy:
    """Check the values of a policy, and return it with its numbers converted to plain ints and floats.

    Raises:
        TypeError, ValueError: If a value is not as `PipelineBuilder.pipe` describes it.
    """
    if policy is DEFAULT_POLICY:
        return policy
    if policy.on_timeout not in _ON_TIMEOUT:
        refuse(ValueError, "on_timeout", f"one of {_ON_TIMEOUT}", policy.on_timeout)
    if policy.on_failure is not None and not callable(policy.on_failure):
        refuse(TypeError, "on_failure", "callable or None", policy.on_failure)
    return FailurePolicy(
        None if policy.max_failures is None else check_max_failures(policy.max_failures),
        check_int("retries", policy.retries, least=0),
        check_seconds("retry_delay", policy.retry_delay, above_zero=False),
        policy.on_failure,
        None if policy.timeout is None else check_seconds("timeout", policy.timeout, above_zero=True),
        policy.on_timeout,
    )

"""The bugs: what to change in which file of the engine, and the tests that should notice first."""

from .executors import EXECUTORS
from .failures import FAILURES
from .flow import FLOW
from .limits import LIMITS
from .looks_without_the_lock import LOOKS_WITHOUT_THE_LOCK
from .metrics import METRICS
from .mutant import Mutant
from .once_made import ONCE_MADE
from .order import ORDER
from .the_end import THE_END
from .wake_ups import WAKE_UPS

__all__ = ["MUTANTS", "Mutant"]

MUTANTS = (
    *WAKE_UPS,
    *LOOKS_WITHOUT_THE_LOCK,
    *ORDER,
    *LIMITS,
    *EXECUTORS,
    *FLOW,
    *FAILURES,
    *THE_END,
    *METRICS,
    *ONCE_MADE,
)

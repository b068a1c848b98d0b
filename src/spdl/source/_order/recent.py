"""The last few results of a function that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Recent"]

Result = TypeVar("Result")


class Recent(Generic[Result]):
    """Calls a pure function, and keeps its last results. Threads may share one: at worst, two call it for the same.

    Args:
        function: The function.
        kept: How many results are kept.
    """

    def __init__(self, function: Callable[..., Result], kept: int = 4) -> None:
        self._function = function
        self._kept = kept
        # Replaced as a whole and never changed, so that readers need no lock.
        self._results: dict[Hashable, Result] = {}

    def __call__(self, *arguments: Any) -> Result:
        """Return the function's result for some arguments."""
        results = self._results
        if arguments in results:
            return results[arguments]
        result = self._function(*arguments)
        newest = list(results.items())[-self._kept + 1 :] if self._kept > 1 else []
        self._results = {**dict(newest), arguments: result}
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_results": {}}

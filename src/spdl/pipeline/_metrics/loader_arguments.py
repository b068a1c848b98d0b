"""What the arguments of a ready-made loader change of the pipeline that it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LoaderArguments", "StageArguments"]


@dataclass(frozen=True, slots=True)
class StageArguments:
    """What may be changed of one stage, and how.

    Attributes:
        unit: What one call of its op works on.
        slot: What works on it: the loader's user has threads or workers, and no slots.
        several: The argument that sets how many it works on at once; empty if none does.
        value: What that argument is now.
        most: So many at once are the most, whatever the argument is; 0 if nothing bounds it. Threads beyond that share
            what each of them works on.
        otherwise: What helps where no argument lets it work on more at once: a sentence.
        note: What else is to be known before the argument is changed: a sentence, or empty.
        processes: The argument that has it run in processes, with its value; empty if none does.
        crossing: How many seconds of CPU time, of all processes together, it takes a result out of one of these; 0 if
            there are none.
        in_place_of_processes: What helps instead where it holds the GIL: a sentence.
        order: The argument that lets finished results pass, with its value; empty if none does.
    """

    unit: str = "item"
    slot: str = "thread"
    several: str = ""
    value: int = 0
    most: int = 0
    otherwise: str = ""
    note: str = ""
    processes: str = ""
    crossing: float = 0.0
    in_place_of_processes: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class LoaderArguments:
    """What may be changed of a loader, and how.

    Attributes:
        loader: The loader's class.
        stages: The stages that it declares, in order.
        source: What helps where the source's ``next()`` takes all the time: a sentence.
        source_several: The argument that helps then, with as many slots as are needed for the work; empty if none does.
        on_demand: Whether the source hands over what the loop asks for, so that its ``next()`` waits for the loop.
        idle: What helps where nothing is in use and the loop waits all the same: a sentence, or empty.
    """

    loader: str
    stages: tuple[StageArguments, ...]
    source: str = ""
    source_several: str = ""
    on_demand: bool = False
    idle: str = ""

    def pack(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> LoaderArguments:
        """Return what was packed, perhaps by another version that knows of less or of more.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: If it is anything else.
        """
        stages = tuple(StageArguments(**_known(StageArguments, stage)) for stage in packed["stages"])
        return cls(**{**_known(cls, packed), "loader": str(packed["loader"]), "stages": stages})


def _known(kind: type[Any], packed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a default, each of the default's type."""
    defaults = {field.name: field.default for field in fields(kind) if isinstance(field.default, str | int | float)}
    return {name: type(default)(packed.get(name, default)) for name, default in defaults.items()}

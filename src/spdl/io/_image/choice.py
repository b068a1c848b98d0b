"""Arguments that must be one of a few words."""

from typing import Any, get_args


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise ValueError unless `value` is one of a Literal's."""
    if value not in get_args(choices):
        msg = f"`{name}` must be one of {', '.join(map(repr, get_args(choices)))}, got {value!r}"
        raise ValueError(msg)

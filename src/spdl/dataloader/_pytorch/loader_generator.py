"""What an epoch draws from the loader's generator: the seed of the workers."""

from __future__ import annotations

from typing import Any

import torch

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .random_states import pack_generator, unpack_generator

__all__ = ["LoaderGenerator"]


class LoaderGenerator:
    """The loader's own torch generator, if it has one, and the seed that was drawn from it or from the global one.

    Args:
        generator: The torch generator, or None.
        base_seed: The seed of the epoch's first worker, if the epoch began elsewhere.
        state: The generator's state after that seed was drawn.
    """

    def __init__(self, generator: Any, base_seed: int | None = None, state: Any = None) -> None:
        self._generator = generator
        self._base_seed = base_seed
        self._state = state
        self._resumed = base_seed is not None
        # Nothing is to be drawn from the global generator either.
        self._global_state = torch.get_rng_state() if self._resumed and generator is None else None

    @classmethod
    def staying(cls, generator: Any, base_seed: int) -> LoaderGenerator:
        """Return that of an epoch whose workers have stayed from the epoch before, with their seeds."""
        return cls(generator, base_seed, None if generator is None else generator.get_state())

    @property
    def base_seed(self) -> int | None:
        """The seed of the epoch's first worker; None until it is drawn."""
        return self._base_seed

    def settle(self, drawn: int) -> int:
        """Return the seed: the one that was drawn, unless the epoch began elsewhere with another."""
        if self._resumed:
            if self._generator is not None and self._state is not None:
                self._generator.set_state(self._state)
            if self._global_state is not None:
                torch.set_rng_state(self._global_state)
        else:
            self._base_seed = drawn
            self._state = None if self._generator is None else self._generator.get_state()
        assert self._base_seed is not None
        return self._base_seed

    def pack(self) -> dict[str, Any]:
        """Return what was drawn as JSON has it."""
        state = self._state
        return {"base_seed": self._base_seed, "generator": None if state is None else pack_generator(state)}

    @classmethod
    def unpack(cls, generator: Any, packed: dict[str, Any]) -> LoaderGenerator:
        """Return what was packed.

        Raises:
            ValueError, TypeError, KeyError: If it is not what `pack` returned.
        """
        seed, state = packed["base_seed"], packed["generator"]
        return cls(generator, None if seed is None else int(seed), None if state is None else unpack_generator(state))

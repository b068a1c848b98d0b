"""The error for parts that PyTorch's loader has and the ready-made ones have not."""

from __future__ import annotations

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["missing_attribute"]

_PARTS = {"batch_sampler", "collate_fn", "dataset", "sampler"}


def missing_attribute(loader: object, name: str) -> AttributeError:
    """Return the error for an attribute that a loader does not have.

    Libraries take PyTorch's loader apart by these names, to make another one of the parts. Of the parts of ours they
    would make a loader that decodes nothing, so it is better that they find none.
    """
    message = f"{type(loader).__name__} has no attribute {name!r}"
    if name in _PARTS:
        message += (
            ": it cannot be taken apart and put together again as PyTorch's. It shares an epoch among ranks by itself, "
            "and load_state_dict() goes on in the middle of one, in place of skipping batches. Where a library must "
            "replace the sampler, use PyTorchDataLoader."
        )
    return AttributeError(message, name=name, obj=loader)

"""What the arguments of the ready-made loaders change of their pipeline."""

from __future__ import annotations

from spdl.pipeline._metrics.loader_arguments import LoaderArguments, StageArguments

__all__ = ["BATCHES_AT_ONCE", "arguments_of"]

# So many batches are made at once, at the most: with more, memory would grow with the number of cores.
BATCHES_AT_ONCE = 4

_TRANSFER = StageArguments(
    unit="batch",
    otherwise=(
        "One thread copies to the device, which no argument changes: have it copy less, such as pictures of "
        '`dtype="uint8"` that the device normalises.'
    ),
)


def arguments_of(loader: str, threads: int, *, transfers: bool) -> LoaderArguments:
    """Return what a user may change.

    Args:
        loader: The loader's class.
        threads: Its threads.
        transfers: Whether it copies to a device.
    """
    load = StageArguments(
        unit="batch",
        several="num_threads",
        value=threads,
        most=BATCHES_AT_ONCE,
        otherwise=(
            "Threads share the media of a batch and nothing else of it. Its samples are looked up one after the other, "
            "but all at once by a source with `__getitems__`; `transform` and `batch_transform` run in one thread for "
            "each batch."
        ),
        in_place_of_processes=(
            "`PyTorchDataLoader` has an argument for that. Here `augment`, or the loader's options in place of "
            "`transform`, run in native code without the GIL, and `batch_transform` is called once for a whole batch."
        ),
    )
    return LoaderArguments(
        loader,
        (load, _TRANSFER) if transfers else (load,),
        source="Nothing but `order` runs there: have its `take()` do less.",
    )

"""What happens in other loaders and here: the flows of the pages for those who come from there."""

from __future__ import annotations

import flow_diagrams
from flow_diagrams import Flow
from flow_steps import copy, data, loop, process, thread

__all__ = ["FLOWS"]

FLOWS: dict[str, tuple[Flow, ...]] = {
    "from_torchdata": (
        (
            "StatefulDataLoader",
            (
                flow_diagrams.INDICES,
                process("workers", "__getitem__, collate_fn, their own states"),
                copy("queue", "pickled"),
                loop("loop", "state: depends on the workers"),
            ),
        ),
        (
            "PyTorchDataLoader",
            (
                flow_diagrams.INDICES,
                thread("threads", "__getitem__, collate_fn"),
                loop("loop", "no copy; state: how far it is"),
            ),
        ),
    ),
    "from_dali": (
        (
            "DALI: a graph, run by its own executor",
            (
                data("reader", "files, shards"),
                thread("decoder", "CPU or GPU, outside of Python"),
                thread("operators", "crop, flip, normalise"),
                loop("iterator", "batches"),
            ),
        ),
        (
            "ImageLoader: one native call for a batch, in threads",
            (
                data("ImageFolder", "paths and labels"),
                thread("load_image_batch", "read, decode, crop, flip, normalise"),
                loop("loop", "takes the batch, no copy"),
            ),
        ),
    ),
    "from_ffcv": (
        (
            "FFCV",
            (
                data("photos"),
                process("DatasetWriter", "once: a second copy, .beton"),
                thread("Loader", "compiled pipelines in threads"),
                loop("loop", "takes the batch"),
            ),
        ),
        (
            "ImageLoader",
            (
                data("photos", "as they are, or in tar archives"),
                thread("load_image_batch", "one native call for each batch"),
                loop("loop", "takes the batch"),
            ),
        ),
    ),
    "from_webdataset": (
        (
            "WebDataset: a stream",
            (
                data("archives", "a part for each worker"),
                process("workers", "read on, a buffer for shuffling, decode"),
                copy("queue", "pickled"),
                loop("loop", "as many as come"),
            ),
        ),
        (
            "TarShards: positions",
            (
                data("archives", "the same ones, looked through once"),
                data("order", "of positions: exact, resumes anywhere"),
                thread("load", "read at a position, decode"),
                loop("loop", "takes the batch, no copy"),
            ),
        ),
    ),
    "from_streaming": (
        (
            "MosaicML Streaming",
            (
                data("shards", "of MDSWriter"),
                process("workers", "whole shards to a folder, then samples"),
                copy("queue", "pickled"),
                loop("loop", "takes the batch"),
            ),
        ),
        (
            "MDSShards",
            (
                data("shards", "the same ones"),
                data("order", "blocks, shuffled"),
                thread("load", "a sample at its position, decoded"),
                loop("loop", "takes the batch, no copy"),
            ),
        ),
    ),
}

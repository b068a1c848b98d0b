"""Draw the pictures of the guide, as SVG into docs/images: flows from left to right, and threads over time.

Run it as `.venv/bin/python scripts/guide_pictures.py` after a change here; a test compares the files with its output.
The pictures show how things belong together, and are not drawn to scale: measured times have plots of their own.
"""

from __future__ import annotations

from pathlib import Path

import advice_flows
import flow_diagrams
import migration_flows
import timelines
from flow_diagrams import Flow
from flow_steps import command, data, gpu, loop, thread
from timelines import Lane, Timeline

FOLDER = Path(__file__).parent.parent / "docs" / "images"


def lane(name: str, *bars: str) -> Lane:
    """Return a lane from texts such as "native 4 decode"."""
    split = [[*bar.split(" ", 2), ""][:3] for bar in bars]
    return Lane(name, tuple(("" if kind == "-" else kind, float(length), word) for kind, length, word in split))


def again(count: int, *bars: str) -> tuple[str, ...]:
    """Return bars, repeated."""
    return bars * count


FLOWS: dict[str, tuple[Flow, ...]] = {
    "logging": (
        (
            "An item that fails",
            (
                thread("op", "raises"),
                thread("pipeline", "counts it, keeps the latest ones"),
                thread("spdl.pipeline", "ERROR: the first ten, then ever fewer"),
                loop("your handlers", "a console, a file"),
            ),
        ),
        (
            "Figures of stages and queues",
            (
                thread("stage", "counts its tasks"),
                thread("report", "at the end, and at intervals"),
                thread("loggers", "tasks and queues, below spdl.pipeline: INFO"),
                loop("your handlers", "hidden by default"),
            ),
        ),
    ),
    "tables": (
        (
            "Columns as tensors",
            (
                data("Parquet files", "here, or in a store"),
                thread("pyarrow", "decodes row groups"),
                thread("TableLoader", "takes shuffled rows"),
                loop("loop", "a tensor per column"),
            ),
        ),
    ),
    "text": (
        (
            "Documents that are tokens already",
            (
                data("token files", "mapped, or in a store"),
                thread("TokenFiles", "a view of each document"),
                thread("stages", "rows and batches"),
                loop("loop"),
            ),
        ),
    ),
    "gpu": (
        (
            "JPEGs that nvJPEG decodes",
            (
                data("files", "read, headers looked at"),
                gpu("nvJPEG", "planes, in device memory"),
                gpu("kernels", "RGB, crop, resize, layout"),
                loop("loop", "batch on the GPU"),
            ),
        ),
        (
            "The others of the same batch: progressive, CMYK, PNG, damaged",
            (
                data("files"),
                thread("CPU decoder", "the same options"),
                gpu("copy", "through pinned memory"),
                loop("loop", "the same batch, in order"),
            ),
        ),
        (
            "Video",
            (
                data("packets", "of our demuxer"),
                gpu("NVDEC", "decode, crop, scale"),
                gpu("kernels", "RGB, resize, layout"),
                loop("loop", "frames on the GPU"),
            ),
        ),
    ),
    "failures": (
        ("An item that is fine", (data("item"), thread("op", "returns a result"), thread("next stage"), loop())),
        (
            "An item whose op raises: retried, then dropped",
            (
                data("item"),
                thread("op", "raises an error"),
                thread("op again", "after a pause, if retries are set"),
                thread("dropped", "logged, counted, kept in failures()"),
            ),
        ),
        (
            "One too many: max_failures",
            (
                data("item"),
                thread("op", "raises an error"),
                thread("the pipeline fails"),
                loop("loop", "gets the error"),
            ),
        ),
    ),
    "resume": (
        (
            "What a state counts: received or dropped, not loaded",
            (
                data("source", "10 taken from it"),
                thread("in flight", "items 6 to 9"),
                thread("sink's buffer", "items 4 and 5"),
                loop("loop", "has 0 to 3; the state says 4"),
            ),
        ),
        (
            "Another process goes on",
            (
                data("source", "skips to item 4"),
                thread("loaded again", "items 4 to 9"),
                loop("loop", "gets item 4 next"),
            ),
        ),
    ),
    "sharding": (
        (
            "One order of the epoch, computed by every rank alike",
            (
                data("seed, epoch", "the same on all ranks"),
                thread("order", "7 2 5 0 3 6 1 4"),
                thread("rank 0 of 2", "takes 7 5 3 1"),
                loop("step", "7 of rank 0, 2 of rank 1"),
            ),
        ),
        (
            "The same epoch goes on with 4 ranks",
            (
                data("state", "4 of 8 are done"),
                thread("order", "the rest: 3 6 1 4"),
                thread("rank 0 of 4", "takes 3"),
                loop("step", "3, 6, 1 and 4, one each"),
            ),
        ),
    ),
    "loaders": (
        (
            "ImageLoader",
            (
                data("ImageFolder", "paths and labels"),
                thread("order", "shuffled, this rank's part"),
                thread("load_image_batch", "reads, crops, decodes, normalises"),
                loop("loop", "images, labels"),
            ),
        ),
    ),
    "shards": (
        (
            "A sample of a tar archive by its position",
            (
                data("order", "sample 4,711"),
                thread("index", "shard, offset, size"),
                thread("read", "that range of the file or object"),
                thread("decode", "the parts of the sample"),
                loop(),
            ),
        ),
    ),
    "frames": (
        (
            "Step by step",
            (
                data("file", "a path, bytes, or an open file"),
                thread("packets", "demux: still encoded"),
                thread("frames", "decode: pixels in planes"),
                thread("buffer", "convert: one copy into the batch"),
                loop("array", "to_numpy, to_torch: a view"),
            ),
        ),
        (
            "In one call",
            (
                data("files"),
                thread("load_image_batch", "each picture straight into its place"),
                loop("array", "to_numpy, to_torch: a view"),
            ),
        ),
    ),
    "arrays": (
        (
            "npy, wav, and stored members of npz and tar: no copy",
            (data("bytes", "read or mapped"), thread("header", "parsed"), loop("array", "a view of the bytes")),
        ),
        (
            "Compressed members: inflated once",
            (data("bytes"), thread("inflate", "into memory of the array, or its row of the batch"), loop("array")),
        ),
    ),
    "dropin": (
        flow_diagrams.MIGRATION_DATALOADER,
        (
            "PyTorchDataLoader in threads",
            (
                flow_diagrams.INDICES,
                thread("__getitem__", "your dataset"),
                thread("collate_fn", "yours or PyTorch's"),
                loop("loop", "takes the batch, no copy"),
            ),
        ),
    ),
    "video": (
        (
            "A clip of a long file",
            (
                data("file", "a path or a URL"),
                thread("index", "where key frames are"),
                thread("packets", "from the key frame before the clip"),
                thread("frames", "decoded, resized"),
                loop("array", "the frames that were asked for"),
            ),
        ),
    ),
    "audio": (
        (
            "Windows of sounds, as a batch",
            (
                data("files", "any rate and length"),
                thread("decode", "only the window"),
                thread("resample", "to one rate"),
                loop("array", "one length, padded"),
            ),
        ),
    ),
    "filters": (
        (
            "Where filters run",
            (
                data("packets"),
                thread("decode", "one frame after another"),
                thread("filters", "in FFmpeg, without the GIL"),
                thread("convert", "one copy into the array"),
                loop("array"),
            ),
        ),
    ),
    "my_loop_waits": (
        (
            "A program that is watched",
            (
                thread("pipeline", "counts what it does"),
                data("page", "memory that only you can read"),
                command("spdl top, why", "reads the page: nothing is asked of the program"),
            ),
        ),
    ),
    "headspace": (
        ("As it is", (data("photos"), thread("loader"), loop("training step", "waits, then trains"))),
        (
            "The upper bound",
            (data("kept batches", "CacheDataLoader"), loop("training step", "never waits")),
        ),
    ),
    "statistics": (
        (
            "Asked by you",
            (thread("pipeline", "counts items, times, failures"), loop("statistics()", "totals since the start")),
        ),
        (
            "Asked by a monitoring system",
            (
                thread("pipeline", "counts items, times, failures"),
                thread("exporter", "Prometheus, OpenTelemetry, TensorBoard"),
                data("system", "takes two readings and subtracts"),
            ),
        ),
        (
            "Told by the pipeline",
            (
                thread("pipeline", "counts items, times, failures"),
                thread("hooks and queues", "your code, at each interval"),
                data("log", "or your own table"),
            ),
        ),
    ),
    "tutorial": (
        (
            "What the tutorial builds",
            (
                data("folder", "photos in a sub-folder per class"),
                thread("shuffle", "another order each epoch"),
                thread("load a batch", "in one native call"),
                loop("training step", "images and labels"),
            ),
        ),
    ),
}

TIMELINES: dict[str, tuple[Timeline, ...]] = {
    "why": (
        Timeline(
            "Load, then train: each waits for the other",
            (lane("main thread", *again(3, "native 3 load", "train 2 train")),),
        ),
        Timeline(
            "A pipeline: threads load the next batches meanwhile",
            (
                lane("thread 1", *again(3, "native 3 load", "wait 1")),
                lane("thread 2", "- 1", *again(3, "native 3 load", "wait 1")),
                lane("main thread", "wait 3", *again(6, "train 2 train")),
            ),
        ),
    ),
    "concurrency": (
        Timeline(
            "Two threads, ops in Python: they take turns",
            (
                lane("thread 1", *again(6, "python 1", "wait 1")),
                lane("thread 2", *again(6, "wait 1", "python 1")),
            ),
        ),
        Timeline(
            "Two threads, ops in native code: both cores work",
            (
                lane("thread 1", *again(3, "python 0.4", "native 3.6")),
                lane("thread 2", "wait 0.4", *again(2, "python 0.4", "native 3.6"), "python 0.4", "native 3.2"),
            ),
        ),
        Timeline(
            "Two processes, ops in Python: a GIL each, and copies",
            (
                lane("worker 1", *again(3, "python 3", "copy 1")),
                lane("worker 2", *again(3, "python 3", "copy 1")),
            ),
        ),
    ),
    "shutdown": (
        Timeline(
            "stop(): what runs may end, nothing begins, and there is one deadline",
            (
                lane("thread 1", "native 4 op", "native 2 op ends"),
                lane("thread 2", "native 3 op", "- 1", "- 4 begins nothing more"),
                lane("main thread", "train 4 loop", "wait 2 stop()", "train 2 goes on"),
            ),
        ),
    ),
    "epochs": (
        Timeline(
            "A pipeline for each epoch: the loop waits at each start",
            (
                lane("pipeline's threads", *again(2, "native 5 epoch", "- 2")),
                lane("main thread", *again(2, "wait 2", "train 5 train")),
            ),
        ),
        Timeline(
            "One pipeline for all: the next epoch is loaded during the end of this one",
            (
                lane("pipeline's threads", "native 5 epoch 0", "native 5 epoch 1", "native 3 epoch 2"),
                lane("main thread", "wait 2", "train 5 epoch 0", "train 5 epoch 1", "train 1"),
            ),
        ),
    ),
    "stores": (
        Timeline(
            "Without reading ahead: each request waits for its answer",
            (
                lane("thread 1", *again(3, "read 4 request", "native 1")),
                lane("thread 2", *again(3, "read 4 request", "native 1")),
            ),
        ),
        Timeline(
            "Reading ahead: requests overlap, since the order is known",
            (
                lane("request 1", *again(3, "read 4 request")),
                lane("request 2", "- 1", *again(3, "read 4 request")),
                lane("request 3", "- 2", *again(3, "read 4 request")),
                lane("thread 1", "wait 4", *again(6, "native 1", "native 0.5")),
            ),
        ),
    ),
    "noisy_neighbours": (
        Timeline(
            "Alone: steps of one length",
            (lane("main thread", *again(6, "train 2 step")),),
        ),
        Timeline(
            "Beside threads that hold the GIL: some steps are late",
            (
                lane(
                    "main thread",
                    "train 2 step",
                    "train 1",
                    "wait 1",
                    "train 1",
                    "train 2 step",
                    "wait 2",
                    "train 2 step",
                ),
                lane("loader", "native 3", "python 1", "native 3", "python 2", "native 3"),
            ),
        ),
        Timeline(
            "Beside threads that work without it: no step is",
            (
                lane("main thread", *again(6, "train 2 step")),
                lane("loader", "native 12"),
            ),
        ),
    ),
}


def pictures() -> dict[str, str]:
    """Return all pictures by the names of their files."""
    all_flows = FLOWS | migration_flows.FLOWS | advice_flows.FLOWS
    drawn = {
        f"{name}_flow.svg": flow_diagrams.draw(f"{name}: {flows[0][0]}", flows) for name, flows in all_flows.items()
    }
    return drawn | {
        f"{name}_timeline.svg": timelines.draw(f"{name}: {each[0].heading}", each) for name, each in TIMELINES.items()
    }


def main() -> None:
    """Write all pictures."""
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

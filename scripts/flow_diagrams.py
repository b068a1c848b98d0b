"""Draw the flow diagrams of the pages on the example programs, and of other pages, as SVG into docs/images.

Run it as `.venv/bin/python scripts/flow_diagrams.py` after a change here; a test compares the files with its output.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "images" / "examples"

BOX_WIDTH, GAP, MARGIN = 158, 32, 20
NAME_HEIGHT, LINE_HEIGHT, PADDING = 18, 15, 12
TITLE_HEIGHT, FLOW_GAP = 26, 22
DETAIL_CHARACTERS = 22
PER_LINE = 5
"""More boxes than this go on in another line: a page makes a wide picture small, and nobody reads its text."""
LINE_GAP, LEGEND_HEIGHT = 24, 20
NARROWEST = 3
"""How many boxes wide the legend may be if the flows are not."""

KINDS = {
    "main": ("the loop, in the main process", "#fce7f3", "#db2777"),
    "thread": ("threads of the main process", "#dbeafe", "#2563eb"),
    "process": ("worker processes", "#fef3c7", "#d97706"),
    "gpu": ("the GPU", "#dcfce7", "#16a34a"),
    "copy": ("a copy between processes", "#fee2e2", "#dc2626"),
    "told": ("told by the package, or by this page", "#dcfce7", "#16a34a"),
    "yours": ("done by you", "#fce7f3", "#db2777"),
    "command": ("a command in a terminal", "#ede9fe", "#7c3aed"),
    "inside": ("inside the package", "#dbeafe", "#2563eb"),
    "outside": ("from elsewhere", "#fef3c7", "#d97706"),
    "data": ("input", "#f4f6fa", "#4a5568"),
}
"""The kinds of steps: the name in the legend, the colour of the box and the colour of its frame."""


@dataclass(frozen=True)
class Step:
    """A box of a diagram: the kind, name and details of a step."""

    kind: str
    name: str
    detail: str = ""

    @property
    def lines(self) -> list[str]:
        """The detail, in lines that fit the box."""
        return textwrap.wrap(self.detail, DETAIL_CHARACTERS)


Flow = tuple[str, tuple[Step, ...]]
"""A title, and the steps from left to right."""


FOLDER_OF_PHOTOS = Step("data", "paths", "of JPEG files")
ONE_SAMPLE = Step("data", "bytes", "one sample, again and again")
INDICES = Step("data", "indices", "of the dataset")
LOAD_ARRAYS = "numpy.load, torch.load or spdl.io"
PILLOWS_ITEM = "Pillow: RGB image, resized copy, tensor"
COLLATE = Step("thread", "collate", "arrays copied into the batch")
TO_THE_GPU = "to the GPU, if there is one"
TAKES_THE_BATCH = Step("main", "loop", "takes the batch, no copy")
COUNTS = Step("main", "loop", "counts")
TRAIN = Step("main", "training step", "forward, backward, optimiser")

MIGRATION_DATALOADER: Flow = (
    "The start: PyTorch DataLoader",
    (
        INDICES,
        Step("process", "__getitem__", PILLOWS_ITEM),
        Step("process", "default_collate", "tensors copied into the batch"),
        Step("copy", "shared memory", "the batch, to the main process"),
        Step("main", "loop", "takes the batch"),
    ),
)
MIGRATION_THREADS: Flow = (
    "Steps 1 and 2: the same dataset in threads",
    (
        INDICES,
        Step("thread", "__getitem__", PILLOWS_ITEM),
        Step("thread", "default_collate", "tensors copied into the batch"),
        TAKES_THE_BATCH,
    ),
)
MIGRATION_SPDL_IO: Flow = (
    "Step 3: spdl.io",
    (
        INDICES,
        Step("thread", "decode_packets", "frames at their final size"),
        Step("thread", "convert_frames", "frames copied into the batch"),
        TAKES_THE_BATCH,
    ),
)
MIGRATION_ONE_CALL: Flow = (
    "Step 4: a batch in one call",
    (
        Step("data", "paths", "a list for each batch"),
        Step("thread", "load_image_batch", "reads, decodes and resizes into the batch: no copy"),
        TAKES_THE_BATCH,
    ),
)

DIAGRAMS: dict[str, tuple[Flow, ...]] = {
    "data_formats": (
        (
            "mp: a pool of processes",
            (
                ONE_SAMPLE,
                Step("copy", "pickle", "1.2 MB to a worker"),
                Step("process", "load", LOAD_ARRAYS),
                Step("copy", "pickle", "1.2 MB back"),
                COUNTS,
            ),
        ),
        (
            "mt: a pool of threads",
            (
                ONE_SAMPLE,
                Step("thread", "load", LOAD_ARRAYS),
                COUNTS,
            ),
        ),
    ),
    "multi_thread_preprocessing": (
        (
            "exp_torch: PyTorch DataLoader",
            (
                FOLDER_OF_PHOTOS,
                Step("process", "decode, resize", "Pillow: an RGB image, its copy, a tensor"),
                Step("process", "collate, normalise", "a batch, then its float copy"),
                Step("copy", "shared memory", "batch to the main process"),
                Step("main", "transfer", TO_THE_GPU),
                COUNTS,
            ),
        ),
        (
            "exp_spdl: Pipeline, image by image",
            (
                FOLDER_OF_PHOTOS,
                Step("thread", "decode, resize", "demux_image, decode_packets"),
                Step("thread", "batch", "convert_frames: one copy"),
                Step("thread", "normalise", "to float"),
                Step("thread", "transfer", TO_THE_GPU),
                COUNTS,
            ),
        ),
        (
            "exp_spdl_batch: Pipeline, a batch in one call",
            (
                FOLDER_OF_PHOTOS,
                Step("thread", "load_image_batch", "reads, decodes, resizes, normalises into the batch: no copy"),
                Step("thread", "transfer", "from pinned memory to the GPU, if there is one"),
                COUNTS,
            ),
        ),
    ),
    "migration": (MIGRATION_DATALOADER, MIGRATION_THREADS, MIGRATION_SPDL_IO),
    "npz_training": (
        (
            "NPZ, processes",
            (
                Step("data", "NPZ files"),
                Step("process", "numpy.load", "copies piece by piece"),
                Step("process", "collate", "arrays copied into the batch"),
                Step("copy", "shared memory", "the batch, to the main process"),
                TRAIN,
            ),
        ),
        (
            "NPZ, threads",
            (
                Step("data", "NPZ files"),
                Step("thread", "numpy.load", "holds the GIL between its copies"),
                COLLATE,
                TRAIN,
            ),
        ),
        (
            "NPY, threads",
            (
                Step("data", "NPY files", "the same arrays"),
                Step("thread", "load_npy", "a view, no copy"),
                COLLATE,
                TRAIN,
            ),
        ),
        (
            "upper bound",
            (Step("data", "two batches", "kept by CacheDataLoader"), TRAIN),
        ),
    ),
    "image_classification": (
        (
            "DataLoader and training loop",
            (
                Step("data", "sampler", "another order each epoch"),
                Step("thread", "preprocessor", "demux_image, decode_packets"),
                Step("thread", "aggregator", "convert_frames: one copy"),
                Step("thread", "transfer_fn", "one thread: to the device, normalise"),
                Step("main", "wait", "data time"),
                Step("main", "train", "step time"),
            ),
        ),
    ),
    "video_classification": (
        (
            "ClipLoader and training loop",
            (
                Step("data", "VideoFolder", "videos and classes"),
                Step("thread", "window", "drawn for each video and epoch"),
                Step("thread", "load_video_batch", "one native call for each batch"),
                Step("main", "wait", "data time"),
                Step("main", "train", "step time"),
            ),
        ),
    ),
    "audio_keywords": (
        (
            "AudioLoader and training loop",
            (
                Step("data", "AudioFolder", "sounds and words"),
                Step("thread", "window", "drawn for each sound and epoch"),
                Step("thread", "load_audio_batch", "one native call for each batch"),
                Step("main", "wait", "data time"),
                Step("main", "train", "step time"),
            ),
        ),
    ),
    "self_supervised": (
        (
            "ImageLoader and training loop",
            (
                Step("data", "ImageList", "photos"),
                Step("thread", "decode", "once for each photo"),
                Step("thread", "two views", "crop, flip, colours, blur"),
                Step("main", "train", "which views are of one photo?"),
            ),
        ),
    ),
    "resume_training": (
        (
            "An undisturbed run",
            (
                Step("data", "ImageList", "photos and classes"),
                Step("thread", "ImageLoader", "one native call for each batch"),
                TRAIN,
            ),
        ),
        (
            "A run that is stopped, again and again",
            (
                Step("data", "checkpoint", "model, optimiser, loader"),
                Step("thread", "ImageLoader", "the batches that were not received"),
                TRAIN,
                Step("main", "SIGTERM", "write the checkpoint, exit"),
            ),
        ),
    ),
    "pretrain_text": (
        (
            "An undisturbed run in one process",
            (
                Step("data", "texts", "the standard library"),
                Step("thread", "TextLoader", "tokenizes, packs, writes rows"),
                TRAIN,
            ),
        ),
        (
            "A run that is killed, in 1, 2, 3 and 1 processes",
            (
                Step("data", "checkpoint", "model, optimiser, loader"),
                Step("thread", "TextLoader", "each rank's rows of a step"),
                TRAIN,
                Step("main", "SIGKILL", "goes on at the checkpoint"),
            ),
        ),
    ),
    "headspace": (
        (
            "With the loader",
            (
                Step("data", "photos"),
                Step("thread", "DataLoader", "decodes, gathers, transfers"),
                TRAIN,
            ),
        ),
        (
            "Under CacheDataLoader, after its first batches",
            (Step("data", "four batches", "kept on the device; the loader has stopped"), TRAIN),
        ),
    ),
    "noisy_neighbour": (
        ("Training", (Step("data", "one batch", "the same in all steps"), TRAIN)),
        ("beside processes", (Step("process", "compute", "in native code"),)),
        ("or threads without the GIL", (Step("thread", "compute", "in native code"),)),
        ("or threads with the GIL", (Step("thread", "compute", "in Python, in turns with the training"),)),
    ),
}


PAGE_DIAGRAMS: dict[str, tuple[Flow, ...]] = {
    "migration_dataloader": (MIGRATION_DATALOADER,),
    "migration_threads": (MIGRATION_THREADS,),
    "migration_spdl_io": (MIGRATION_SPDL_IO,),
    "migration_one_call": (MIGRATION_ONE_CALL,),
}
"""The diagrams of other pages, in docs/images."""


def draw(title: str, flows: tuple[Flow, ...]) -> str:
    """Return a diagram as SVG."""
    body = []
    top = MARGIN
    right = _width(NARROWEST)
    for heading, steps in flows:
        body.append(f'<text class="heading" x="{MARGIN}" y="{top + 14}">{escape(heading)}</text>')
        top += TITLE_HEIGHT
        height = 2 * PADDING + NAME_HEIGHT + LINE_HEIGHT * max(len(step.lines) for step in steps)
        begin, end = MARGIN, 0
        for number, line in enumerate(_lines(steps)):
            if number:
                # The arrow leads back, below the line above.
                begin = MARGIN + GAP
                below = top + height + LINE_GAP / 2
                middle = top + height / 2
                top += height + LINE_GAP
                back = f"V{below:g} H{MARGIN + 6} V{top + height / 2:g} H{begin - 2}"
                body.append(f'<path class="flow" d="M{end} {middle:g} H{end + 12} {back}"/>')
            for index, step in enumerate(line):
                left = begin + index * (BOX_WIDTH + GAP)
                body += _box(step, left, top, height)
                if index:
                    middle = top + height / 2
                    body.append(f'<path class="flow" d="M{left - GAP + 2} {middle:g} H{left - 2}"/>')
            end = begin + len(line) * (BOX_WIDTH + GAP) - GAP
            right = max(right, end + MARGIN)
        top += height + FLOW_GAP
    used = [kind for kind in KINDS if any(step.kind == kind for _, steps in flows for step in steps)]
    left = MARGIN
    for kind in used:
        name, fill, stroke = KINDS[kind]
        length = 40 + round(6.4 * len(name))
        if left > MARGIN and left + length > right:
            left = MARGIN
            top += LEGEND_HEIGHT
        body.append(f'<rect x="{left}" y="{top}" width="12" height="12" rx="2" fill="{fill}" stroke="{stroke}"/>')
        body.append(f'<text class="detail left" x="{left + 18}" y="{top + 10.5}">{escape(name)}</text>')
        left += length
    width = right
    height = top + 12 + MARGIN
    head = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            'font-family="system-ui, sans-serif" font-size="14" role="img">'
        ),
        f"<title>{escape(title)}</title>",
        "<style>",
        ".heading { font-weight: 600; fill: #1a202c; }",
        ".name { font-weight: 600; fill: #1a202c; text-anchor: middle; }",
        ".detail { font-size: 12px; fill: #475569; text-anchor: middle; }",
        ".left { text-anchor: start; }",
        ".flow { stroke: #1a202c; stroke-width: 1.6; fill: none; marker-end: url(#head); }",
        "</style>",
        (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#1a202c"/></marker></defs>'
        ),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def _width(boxes: int) -> int:
    return 2 * MARGIN + boxes * (BOX_WIDTH + GAP) - GAP


def _lines(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """Return the steps in as few lines as they need, of about the same length."""
    length = math.ceil(len(steps) / math.ceil(len(steps) / PER_LINE))
    return [steps[begin : begin + length] for begin in range(0, len(steps), length)]


def _box(step: Step, left: float, top: float, height: float) -> list[str]:
    _, fill, stroke = KINDS[step.kind]
    centre = left + BOX_WIDTH / 2
    drawn = [
        f'<rect x="{left}" y="{top}" width="{BOX_WIDTH}" height="{height}" rx="6" fill="{fill}" stroke="{stroke}"/>'
    ]
    first = top + (height - NAME_HEIGHT - LINE_HEIGHT * len(step.lines)) / 2 + 14
    drawn.append(f'<text class="name" x="{centre:g}" y="{first:g}">{escape(step.name)}</text>')
    for index, line in enumerate(step.lines):
        y = first + NAME_HEIGHT + LINE_HEIGHT * index
        drawn.append(f'<text class="detail" x="{centre:g}" y="{y:g}">{escape(line)}</text>')
    return drawn


def diagrams() -> dict[str, str]:
    """Return all diagrams by the names of their files."""
    return {f"{name}_flow.svg": draw(f"The flow of {name}.py", flows) for name, flows in DIAGRAMS.items()}


def page_diagrams() -> dict[str, str]:
    """Return the diagrams of other pages by the names of their files."""
    return {f"{name}_flow.svg": draw(flows[0][0], flows) for name, flows in PAGE_DIAGRAMS.items()}


def main() -> None:
    """Write all diagrams."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for folder, drawn in ((FOLDER, diagrams()), (FOLDER.parent, page_diagrams())):
        for name, text in drawn.items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Reads JSON lines, tokenizes them and packs them into rows. Prints the tokens in a second, and when the first came.

The bare tokenizer has its texts in memory and packs nothing: no loader can be faster. Each contender has two threads or
processes, and the time begins before its first import but that of numpy.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

LENGTH = 2048
BATCH = 8
WORKERS = 2
TOGETHER = 128
END = 0

Batches = Iterator[np.ndarray]


def tokenizer_of(folder: Path) -> Any:
    """Return the tokenizer that `prepare_text.py` has trained."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - the time of its import counts.

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def texts_of(folder: Path, part: int = 0, parts: int = 1) -> Iterator[str]:
    """Yield every n-th text."""
    with (folder / "texts.jsonl").open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number % parts == part:
                yield json.loads(line)["text"]


def groups(texts: Iterator[str]) -> Iterator[list[str]]:
    """Yield texts in lists."""
    group: list[str] = []
    for text in texts:
        group.append(text)
        if len(group) == TOGETHER:
            yield group
            group = []
    if group:
        yield group


def pack(documents: Iterator[list[int]]) -> Iterator[np.ndarray]:
    """Yield rows, one filled after the other."""
    left: list[int] = []
    for ids in documents:
        left += [*ids, END]
        while len(left) >= LENGTH:
            yield np.array(left[:LENGTH], np.int32)
            left = left[LENGTH:]


def by_us(folder: Path) -> Batches:
    """Load with `TextLoader`."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from spdl.dataloader import TextLoader, Tokenize  # noqa: PLC0415
    from spdl.source import JsonLines  # noqa: PLC0415

    tokenizer = Tokenize(str(folder / "tokenizer.json"), eos_token_id=END)
    lines = JsonLines(folder / "texts.jsonl", cache=folder / "index")
    for batch in TextLoader(
        lines, BATCH, length=LENGTH, tokenizer=tokenizer, num_threads=WORKERS, output="numpy", drop_last=True
    ):
        # Without the padding.
        yield batch.tokens[batch.segment_ids > 0]


def by_bare_tokenizer(folder: Path) -> Batches:
    """Tokenize in a bare pool of threads, with a copy of the tokenizer in each, and keep arrays."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415
    from threading import local  # noqa: PLC0415

    own = local()

    def encode(texts: list[str]) -> np.ndarray:
        if not hasattr(own, "tokenizer"):
            own.tokenizer = tokenizer_of(folder)
        return np.concatenate(
            [np.fromiter(each.ids, np.int32, len(each)) for each in own.tokenizer.encode_batch_fast(texts)]
        )

    with ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(encode, LISTS)


def by_datasets(folder: Path) -> Batches:
    """Map a dataset in processes, pack it in a second map as run_clm.py does, and iterate over it."""
    import datasets  # noqa: PLC0415

    datasets.disable_progress_bars()
    tokenizer = tokenizer_of(folder)

    def encode(examples: dict[str, list[str]]) -> dict[str, Any]:
        return {"input_ids": [[*each.ids, END] for each in tokenizer.encode_batch_fast(examples["text"])]}

    def group(examples: dict[str, list[Any]]) -> dict[str, Any]:
        whole = [token for ids in examples["input_ids"] for token in ids]
        count = len(whole) // LENGTH * LENGTH
        return {"input_ids": [whole[start : start + LENGTH] for start in range(0, count, LENGTH)]}

    cache = str(folder / f"datasets-{os.getpid()}")
    lines = datasets.load_dataset("json", data_files=str(folder / "texts.jsonl"), split="train", cache_dir=cache)
    tokenized = lines.map(encode, batched=True, batch_size=TOGETHER, num_proc=WORKERS, remove_columns=["text", "id"])
    rows = tokenized.map(group, batched=True, num_proc=WORKERS).with_format("numpy")
    yield from (batch["input_ids"] for batch in rows.iter(BATCH))


def by_torch(folder: Path) -> Batches:
    """Load with PyTorch's DataLoader, whose workers tokenize and pack every other text."""
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: PLC0415

    class Rows(IterableDataset):
        def __iter__(self) -> Batches:
            info = get_worker_info()
            tokenizer = tokenizer_of(folder)
            documents = (
                each.ids
                for group in groups(texts_of(folder, info.id, info.num_workers))
                for each in tokenizer.encode_batch_fast(group)
            )
            return pack(documents)

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for batch in DataLoader(Rows(), batch_size=BATCH, num_workers=WORKERS, drop_last=True):
        yield batch.numpy()


def by_grain(folder: Path) -> Batches:
    """Load with Grain, whose workers tokenize, and which packs by first-fit."""
    import grain  # noqa: PLC0415

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = tokenizer_of(folder)
    lines = list(texts_of(folder))

    def encode(text: str) -> dict[str, np.ndarray]:
        return {"tokens": np.array([*tokenizer.encode_batch_fast([text])[0].ids, END][:LENGTH], np.int32)}

    documents = grain.MapDataset.source(lines).map(encode)
    options = grain.ReadOptions(num_threads=WORKERS, prefetch_buffer_size=500)
    rows = grain.experimental.FirstFitPackIterDataset(
        documents.to_iter_dataset(options), length_struct={"tokens": LENGTH}, num_packing_bins=64
    )
    for batch in rows.batch(BATCH):
        yield batch["tokens"][batch["tokens_segment_ids"] > 0]


CONTENDERS: dict[str, Callable[[Path], Batches]] = {
    "spdl-turbo": by_us,
    "bare tokenizer": by_bare_tokenizer,
    "datasets": by_datasets,
    "torch": by_torch,
    "grain": by_grain,
}
LISTS: list[list[str]] = []


def main(contender: str, folder: Path) -> dict[str, float]:
    """Read everything once."""
    if contender == "bare tokenizer":
        LISTS.extend(groups(texts_of(folder)))
    begin = time.perf_counter()
    tokens, first = 0, 0.0
    for batch in CONTENDERS[contender](folder):
        first = first or time.perf_counter() - begin
        tokens += batch.size
    seconds = time.perf_counter() - begin
    return {"tokens per second": tokens / seconds, "first batch ms": 1000 * first}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(given["contender"], Path(given["folder"]))))

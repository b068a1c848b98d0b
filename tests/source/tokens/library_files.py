"""Writes the files in ``data`` by the libraries whose formats they are: once, with the versions below.

    python -m tests.source.tokens.library_files LIBRARY

writes the files of one library, which only this script needs: megatron-core 0.16.1, dolma 1.2.1, ai2-olmo-core 3.0.0,
datatrove 0.10.1, litdata 0.2.76, mosaicml-streaming 0.13.0, datasets 5.2.0. Some import more of themselves than is
installed everywhere, so that a writer is imported without its package's `__init__`.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).with_name("data")
LENGTHS = (7, 1, 30, 12, 3, 20)
DOCUMENTS = [(np.arange(100 * number, 100 * number + length) * 7919) % 50257 for number, length in enumerate(LENGTHS)]
"""What each library has written."""


def bare(*packages: str) -> None:
    """Let modules of packages be imported without what the packages themselves import."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        module = types.ModuleType(name)
        module.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = module


def write_megatron(folder: Path) -> None:
    import torch  # noqa: PLC0415

    made = importlib.import_module("megatron.core.datasets.indexed_dataset")
    for dtype in (np.uint8, np.int8, np.int16, np.int32, np.int64, np.float64, np.float32, np.uint16):
        builder = made.IndexedDatasetBuilder(str(folder / f"{dtype.__name__}.bin"), dtype=dtype)
        for document in DOCUMENTS:
            builder.add_document(torch.from_numpy(document.astype(dtype).astype(np.int64)), [len(document)])
        builder.finalize(str(folder / f"{dtype.__name__}.idx"))
    builder = made.IndexedDatasetBuilder(str(folder / "sentences.bin"), dtype=np.int32)
    for document in DOCUMENTS:
        for sentence in np.array_split(document, 3):
            builder.add_item(torch.from_numpy(sentence))
        builder.end_document()
    builder.finalize(str(folder / "sentences.idx"))
    merged = made.IndexedDatasetBuilder(str(folder / "merged.bin"), dtype=np.int32)
    for _ in range(2):
        merged.add_index(str(folder / "sentences"))
    merged.finalize(str(folder / "merged.idx"))
    builder = made.IndexedDatasetBuilder(str(folder / "multimodal.bin"), dtype=np.int32, multimodal=True)
    builder.add_document(torch.from_numpy(DOCUMENTS[0]), [len(DOCUMENTS[0])], [1])
    builder.finalize(str(folder / "multimodal.idx"))


def write_dolma(folder: Path) -> None:
    bare("dolma", "dolma.core", "dolma.tokenizer")
    types_of = importlib.import_module("dolma.tokenizer.data_types")
    made = importlib.import_module("dolma.tokenizer.memmap_writer")
    for dtype in ("uint16", "uint32"):
        with made.MemmapWriter(str(folder / f"part-{dtype}"), np.dtype(dtype), max_tokens=1000) as writer:
            for number, document in enumerate(DOCUMENTS):
                assert writer.write(
                    types_of.TokenizerOutput.from_tokens(f'id "{number}",', "a.jsonl", number, document.tolist())
                )


def write_olmo_core(folder: Path) -> None:
    bare("olmo_core.data")
    made = importlib.import_module("olmo_core.data.utils")
    tokens = np.concatenate([part for document in DOCUMENTS for part in (document, [50279])]).astype(np.uint16)
    tokens.tofile(folder / "a.npy")
    made.write_document_indices(folder / "a.npy", dtype=np.uint16, eos_token_id=50279)


def write_datatrove(folder: Path) -> None:
    made = importlib.import_module("datatrove.pipeline.tokens.tokenizer")
    for size in (2, 4):
        file = made.TokenizedFile(str(folder), f"{8 * size}.ds", save_final_metadata=True, token_size=size)
        for document in DOCUMENTS:
            file.write(document.tolist(), None)
        file.close()


def write_litdata(folder: Path) -> None:
    import torch  # noqa: PLC0415

    made = importlib.import_module("litdata.streaming.writer")
    loaders = importlib.import_module("litdata.streaming.item_loader")
    kinds: dict[str, Callable[[Any], Any]] = {"arrays": lambda each: each.astype(np.uint16)}
    kinds["tensors"] = lambda each: torch.from_numpy(each.astype(np.int32))
    for name, convert in kinds.items():
        (folder / name).mkdir()
        writer = made.BinaryWriter(str(folder / name), chunk_bytes=120, item_loader=loaders.TokensLoader(4))
        for number, document in enumerate(DOCUMENTS):
            writer[number] = convert(document)
        writer.done()
        writer.merge()


def write_streaming(folder: Path) -> None:
    bare("streaming")
    writer = importlib.import_module("streaming.base.format.mds.writer").MDSWriter
    kinds: dict[str, Callable[[Any], Any]] = {"ndarray:uint16": lambda each: each.astype(np.uint16)}
    kinds |= {"ndarray": lambda each: each.astype(np.int32), "bytes": lambda each: each.tobytes()}
    for kind, convert in kinds.items():
        with writer(
            out=str(folder / kind.replace(":", "-")), columns={"tokens": kind, "id": "str"}, size_limit=300
        ) as out:
            for number, document in enumerate(DOCUMENTS):
                out.write({"tokens": convert(document), "id": str(number)})


def write_datasets(folder: Path) -> None:
    datasets = importlib.import_module("datasets")
    table = datasets.Dataset.from_dict({"input_ids": [each.tolist() for each in DOCUMENTS]})
    table.save_to_disk(str(folder / "saved"))
    table.to_parquet(str(folder / "a.parquet"), batch_size=4)


WRITERS: dict[str, Callable[[Path], None]] = {
    "megatron": write_megatron,
    "dolma": write_dolma,
    "olmo_core": write_olmo_core,
    "datatrove": write_datatrove,
    "litdata": write_litdata,
    "streaming": write_streaming,
    "datasets": write_datasets,
}


if __name__ == "__main__":
    library = sys.argv[1]
    shutil.rmtree(DATA / library, ignore_errors=True)
    (DATA / library).mkdir(parents=True)
    WRITERS[library](DATA / library)

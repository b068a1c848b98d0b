"""Items that are read from files which are opened for the item."""
# mypy: ignore-errors

import base64
import csv
import gzip
import hashlib
import json
import os
import pickle
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe
from torch.utils.data import Dataset


class ArrayFiles(Dataset):
    """Loads arrays by path."""

    def __init__(self, folder):
        for idx in range(SIZE):
            np.save(folder / f"{idx:03}.npy", np.full((2, 3), idx, np.float32))
        self.paths = sorted(str(path) for path in folder.glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        return torch.from_numpy(np.load(self.paths[idx]))


@safe()
def array_files(folder):
    return {"dataset": ArrayFiles(folder)}


class ArchiveFiles(Indices):
    """Loads from an npz archive that it opens for each item."""

    def __init__(self, path):
        np.savez(path, **{f"a{idx}": np.arange(idx) for idx in range(SIZE)})
        self.path = path

    def __getitem__(self, idx):
        with np.load(self.path) as archive:
            return archive[f"a{idx}"].sum()


@safe()
def npz_file(folder):
    return {"dataset": ArchiveFiles(folder / "all.npz")}


class JsonFiles(Indices):
    """Reads JSON files."""

    def __init__(self, folder):
        self.folder = folder
        for idx in range(SIZE):
            with open(folder / f"{idx}.json", "w") as f:
                json.dump({"id": idx, "boxes": [[0, 0, idx, 1]]}, f)

    def __getitem__(self, idx):
        with open(os.path.join(self.folder, f"{idx}.json"), encoding="utf-8") as f:
            record = json.load(f)
        return {"id": record["id"], "boxes": torch.tensor(record["boxes"])}


@safe()
def json_files(folder):
    return {"dataset": JsonFiles(folder)}


class ChangedJson(JsonFiles):
    """Changes what it read."""

    def __getitem__(self, idx):
        record = json.loads(Path(self.folder, f"{idx}.json").read_text())
        for box in record["boxes"]:
            box[2] += box[0] + 1
        record["extra"] = len(record)
        return record


@safe()
def json_that_is_changed(folder):
    return {"dataset": ChangedJson(folder)}


class CsvRows(Dataset):
    """Reads the rows when it is made."""

    def __init__(self, path):
        with open(path, newline="") as f:
            self.rows = list(csv.DictReader(f))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        row = self.rows[idx]
        return row["name"], int(row["label"]), float(row["score"])


@safe()
def csv_rows(folder):
    with open(folder / "rows.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["name", "label", "score"])
        writer.writerows([f"n{idx}", idx, idx / 4] for idx in range(SIZE))
    return {"dataset": CsvRows(folder / "rows.csv")}


class LineOffsets(Dataset):
    """Opens a file for each item, and seeks in it."""

    def __init__(self, path):
        self.path = path
        self.offsets = [0]
        with open(path, "rb") as f:
            for line in f:
                self.offsets.append(self.offsets[-1] + len(line))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, idx):
        with open(self.path, "rb") as f:
            f.seek(self.offsets[idx])
            return f.readline().decode("utf-8").rstrip("\n")


@safe()
def lines_of_a_file_opened_for_each(folder):
    (folder / "lines.txt").write_text("".join(f"line {idx}\n" for idx in range(SIZE)))
    return {"dataset": LineOffsets(str(folder / "lines.txt"))}


class PositionedReads(Indices):
    """Reads a descriptor at offsets, which moves no position."""

    def __init__(self, path):
        path.write_bytes(bytes(range(SIZE * 4)))
        self.fd = os.open(path, os.O_RDONLY)

    def __del__(self):
        os.close(self.fd)

    def __getitem__(self, idx):
        return list(os.pread(self.fd, 4, idx * 4))


@safe()
def positioned_reads(folder):
    return {"dataset": PositionedReads(folder / "data.bin")}


class Compressed(Indices):
    """Decompresses bytes in memory."""

    def __init__(self):
        self.gzipped = [gzip.compress(str(idx).encode()) for idx in range(SIZE)]
        self.deflated = [zlib.compress(bytes([idx] * 10)) for idx in range(SIZE)]
        self.encoded = [base64.b64encode(bytes([idx, 1])).decode() for idx in range(SIZE)]

    def __getitem__(self, idx):
        text = gzip.decompress(self.gzipped[idx]).decode()
        data = np.frombuffer(zlib.decompress(self.deflated[idx]), dtype=np.uint8)
        return (
            int(text),
            int(data.sum()),
            base64.b64decode(self.encoded[idx])[0],
            hashlib.md5(text.encode()).hexdigest(),
        )


@safe()
def compressed_bytes(folder):
    return {"dataset": Compressed()}


class Saved(Dataset):
    """Loads tensors that torch saved."""

    def __init__(self, folder):
        self.files = []
        for idx in range(SIZE):
            torch.save({"x": torch.arange(idx + 1), "y": idx}, folder / f"{idx}.pt")
            self.files.append(folder / f"{idx}.pt")

    def __len__(self):
        return len(self.files)

    def __getitem__(self, idx):
        data = torch.load(self.files[idx])
        return data["x"].sum(), data["y"]


@safe()
def torch_files(folder):
    return {"dataset": Saved(folder)}


class Pickled(Indices):
    """Loads pickles with pathlib."""

    def __init__(self, folder):
        for idx in range(SIZE):
            (folder / f"{idx}.pkl").write_bytes(pickle.dumps([idx, {"a": idx}]))
        self.folder = Path(folder)

    def __getitem__(self, idx):
        number, record = pickle.loads((self.folder / f"{idx}.pkl").read_bytes())
        return number, record


@safe()
def pickled_files(folder):
    return {"dataset": Pickled(folder)}


class ZippedForEach(Indices):
    """Opens a zip archive for each item."""

    def __init__(self, path):
        with zipfile.ZipFile(path, "w") as archive:
            for idx in range(SIZE):
                archive.writestr(f"{idx}.txt", f"text {idx}")
        self.path = path

    def __getitem__(self, idx):
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(f"{idx}.txt").decode()


@safe()
def archive_opened_for_each(folder):
    return {"dataset": ZippedForEach(folder / "all.zip")}

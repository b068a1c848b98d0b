"""Readers with one position."""
# mypy: ignore-errors

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import mmap
import os
import socket
import sqlite3
import subprocess
import sys
import tarfile
import wave
import zipfile

import numpy as np
from PIL import Image
from tests.dataloader.pytorch.thread_kinds.helpers import numbers_as_bytes
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch.utils.data import ConcatDataset, Dataset, Subset, get_worker_info


def write_lines(folder, suffix="txt"):
    path = folder / f"lines.{suffix}"
    path.write_text("".join(f"line {index} {'x' * index}\n" for index in range(SIZE)))
    return path


class TextLines(Dataset):
    """Keeps a text file open, with the offsets of its lines."""

    def __init__(self, path):
        self.file = open(path)
        self.offsets = []
        while True:
            offset = self.file.tell()
            if not self.file.readline():
                break
            self.offsets.append(offset)

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, idx):
        self.file.seek(self.offsets[idx])
        return self.file.readline().strip()


@unsafe(is_exact=False)  # Forked workers share the position of a file that was open before.
def open_text_file(folder):
    return {"dataset": TextLines(write_lines(folder))}


@unsafe(is_exact=False)
def open_text_file_below_subsets(folder):
    lines = TextLines(write_lines(folder))
    return {"dataset": ConcatDataset([Subset(Subset(lines, range(20)), range(0, 20, 2)), Subset(lines, [3, 1, 2])])}


class JsonLines:
    """Opens its file when the first item is asked for."""

    def __init__(self, path):
        self.path = path
        self.file = None
        with open(path, "rb") as file:
            self.offsets = [0]
            for line in file:
                self.offsets.append(self.offsets[-1] + len(line))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, idx):
        if self.file is None:
            self.file = open(self.path, "rb")
        self.file.seek(self.offsets[idx])
        return json.loads(self.file.read(self.offsets[idx + 1] - self.offsets[idx]))


@unsafe()
def file_opened_with_the_first_item(folder):
    path = folder / "lines.jsonl"
    path.write_text("".join(json.dumps({"id": i, "text": "x" * i}) + "\n" for i in range(SIZE)))
    return {"dataset": JsonLines(path)}


class FixedRecords:
    """Reads records of 32 bytes from what it is given."""

    def __init__(self, file):
        self.file = file

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.file.seek(idx * 32)
        return np.frombuffer(self.file.read(32), np.int64).copy()


@unsafe()
def bytes_io(folder):
    return {"dataset": FixedRecords(io.BytesIO(numbers_as_bytes()))}


@unsafe()
def buffered_reader_of_bytes(folder):
    return {"dataset": FixedRecords(io.BufferedReader(io.BytesIO(numbers_as_bytes())))}


@unsafe()
def gzip_file(folder):
    return {"dataset": FixedRecords(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(numbers_as_bytes()))))}


@unsafe()
def lzma_file(folder):
    return {"dataset": FixedRecords(lzma.open(io.BytesIO(lzma.compress(numbers_as_bytes()))))}


@unsafe()
def bz2_file(folder):
    return {"dataset": FixedRecords(bz2.open(io.BytesIO(bz2.compress(numbers_as_bytes()))))}


@unsafe()
def member_of_a_zip_archive(folder):
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("data.bin", numbers_as_bytes())
    return {"dataset": FixedRecords(zipfile.ZipFile(io.BytesIO((folder / "all.zip").read_bytes())).open("data.bin"))}


@unsafe()
def memory_map_with_position(folder):
    (folder / "data.bin").write_bytes(numbers_as_bytes())
    with open(folder / "data.bin", "rb") as file:
        return {"dataset": FixedRecords(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))}


class ArchiveMembers:
    """Reads members by name."""

    def __init__(self, path):
        self.path = path
        self.archive = None

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        if self.archive is None:
            self.archive = tarfile.open(self.path)
        return self.archive.extractfile(f"{idx}.txt").read().decode()


@unsafe()
def tar_archive(folder):
    with tarfile.open(folder / "all.tar", "w") as archive:
        for idx in range(SIZE):
            (folder / f"{idx}.txt").write_text(f"text {idx}")
            archive.add(folder / f"{idx}.txt", f"{idx}.txt")
    return {"dataset": ArchiveMembers(folder / "all.tar")}


class ZipMembers:
    """Keeps a zip archive open, which counts its readers without a lock."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        self.names = sorted(self.archive.namelist())

    def __len__(self):
        return len(self.names)

    def __getitem__(self, idx):
        with self.archive.open(self.names[idx]) as file:
            return np.load(file)


@unsafe()
def zip_archive(folder):
    np.savez(folder / "all.npz", **{f"{idx:03}": np.full(3, idx) for idx in range(SIZE)})
    return {"dataset": ZipMembers(folder / "all.npz")}


class Rows:
    """Asks a database in memory."""

    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table items (id integer, name text)")
        self.db.executemany("insert into items values (?, ?)", [(i, f"name {i}") for i in range(SIZE)])

    def __del__(self):
        # Python warns of a connection that is not closed. In another thread it cannot be.
        with contextlib.suppress(sqlite3.ProgrammingError):
            self.db.close()

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        return self.db.execute("select name from items where id = ?", (idx,)).fetchone()[0]


@unsafe()
def database_connection(folder):
    return {"dataset": Rows()}


class CursorRows(Rows):
    """Asks through one cursor, which other threads may use."""

    def __init__(self):
        self.db = sqlite3.connect(":memory:", check_same_thread=False)
        self.cursor = self.db.cursor()
        self.cursor.execute("create table items (id integer, name text)")
        self.cursor.executemany("insert into items values (?, ?)", [(i, f"name {i}") for i in range(SIZE)])

    def __getitem__(self, idx):
        self.cursor.execute("select name from items where id = ?", (idx,))
        return self.cursor.fetchone()[0]


@unsafe()
def database_cursor(folder):
    return {"dataset": CursorRows()}


class WaveClips:
    """Reads clips of a sound with the standard library."""

    def __init__(self, data):
        self.wave = wave.open(io.BytesIO(data))

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.wave.setpos(idx * 100)
        return np.frombuffer(self.wave.readframes(100), np.int16).copy()


@unsafe()
def wave_reader(folder):
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(SIZE * 100, dtype=np.int16).tobytes())
    return {"dataset": WaveClips((folder / "sound.wav").read_bytes())}


def frames_as_tiff():
    frames = [Image.new("L", (8, 8), idx) for idx in range(SIZE)]
    file = io.BytesIO()
    frames[0].save(file, "TIFF", save_all=True, append_images=frames[1:])
    return file.getvalue()


class Frames:
    """Moves an open image from frame to frame."""

    def __init__(self, data):
        self.image = Image.open(io.BytesIO(data))

    def __len__(self):
        return self.image.n_frames

    def __getitem__(self, idx):
        self.image.seek(idx)
        return np.array(self.image)


@unsafe("PIL")
def frames_of_an_open_image(folder):
    return {"dataset": Frames(frames_as_tiff())}


class OpenImages:
    """Opens all images at once, and Pillow decodes each when it is first used."""

    def __init__(self, folder):
        for idx in range(4):
            Image.new("RGB", (64, 64), (idx, 2 * idx, 0)).save(folder / f"{idx}.png")
        self.images = [Image.open(io.BytesIO((folder / f"{idx}.png").read_bytes())) for idx in range(4)]

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        return np.array(self.images[idx % 4].convert("RGB"))


@unsafe("PIL")
def images_that_are_decoded_later(folder):
    return {"dataset": OpenImages(folder)}


class NextRow:
    """Reads a row after the other, whatever the index."""

    def __init__(self, path):
        self.rows = csv.reader(io.StringIO(path.read_text()))

    def __len__(self):
        return SIZE // 2

    def __getitem__(self, idx):
        return next(self.rows)[0]


@unsafe()
def csv_reader(folder):
    return {"dataset": NextRow(write_lines(folder))}


def open_descriptor(worker):
    dataset = get_worker_info().dataset
    dataset.descriptor = os.open(dataset.path, os.O_RDONLY)


class Descriptor:
    """Reads through a descriptor, which is a number with a position."""

    descriptor = -1

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        os.lseek(self.descriptor, idx * 32, os.SEEK_SET)
        return list(os.read(self.descriptor, 32))


@unsafe()
def descriptor_of_a_file(folder):
    (folder / "data.bin").write_bytes(numbers_as_bytes())
    return {"dataset": Descriptor(folder / "data.bin"), "worker_init_fn": open_descriptor}


class Service:
    """Asks a program over its pipes."""

    program = "import sys\nfor line in sys.stdin: print(int(line) ** 2, flush=True)"

    def __init__(self):
        self.process = None

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen([sys.executable, "-SEc", self.program], stdin=pipe, stdout=pipe, text=True)
        self.process.stdin.write(f"{idx}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@unsafe()
def pipes_of_a_program(folder):
    return {"dataset": Service()}


class Echo:
    """Sends and receives over one connection."""

    connection = None

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        if self.connection is None:
            self.connection = socket.socketpair()
        ours, theirs = self.connection
        ours.sendall(idx.to_bytes(8, "little"))
        return int.from_bytes(theirs.recv(8), "little")


@unsafe()
def socket_connection(folder):
    return {"dataset": Echo()}

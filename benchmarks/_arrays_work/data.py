"""The data to load: an image of 3x640x480 and its labels of 640x480, 50 small files, ten seconds of sound."""

from __future__ import annotations

import io
import tarfile
import wave
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


def arrays(kind: str) -> Arrays:
    """Make the image and the labels: "noise", as the seed has it, "smooth" gradients, or a "photo" of both."""
    y, x = np.mgrid[0:640, 0:480]
    labels = (x // 60 + y // 60 * 8).astype(np.uint8)
    if kind == "smooth":
        image = np.stack([x // 2 + y // 4, x // 4 + y // 2, (x + y) // 4]).astype(np.uint8)
        return {"img": image, "lbl": labels}
    random = np.random.default_rng(0)
    if kind == "noise":
        image = random.integers(0, 256, (3, 640, 480), dtype=np.uint8)
        return {"img": image, "lbl": random.integers(0, 256, (640, 480), dtype=np.uint8)}
    waves = 128 + 60 * np.sin(x / 40 + np.arange(3)[:, None, None]) * np.cos(y / 50)
    noisy = np.clip(waves + random.normal(0, 2, waves.shape), 0, 255)
    return {"img": noisy.astype(np.uint8), "lbl": labels}


def npy(kind: str) -> list[bytes]:
    """Return each array as a .npy file."""
    files = []
    for array in arrays(kind).values():
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        files.append(file.getvalue())
    return files


def npz(kind: str, compression: str) -> bytes:
    """Return both arrays as one .npz file, "stored" or "deflated"."""
    file = io.BytesIO()
    save = np.savez if compression == "stored" else np.savez_compressed
    save(file, **arrays(kind))
    return file.getvalue()


def torch_file(kind: str) -> bytes:
    """Return both arrays as a file of torch.save."""
    import torch  # noqa: PLC0415 - other contenders' environments need not have it.

    file = io.BytesIO()
    torch.save({key: torch.from_numpy(array) for key, array in arrays(kind).items()}, file)
    return file.getvalue()


def tar() -> bytes:
    """Return an archive of 50 files of 100 to 5,000 bytes."""
    random = np.random.default_rng(0)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in range(50):
            member = tarfile.TarInfo(f"{number:06}.jpg")
            member.size = int(random.integers(100, 5000))
            archive.addfile(member, io.BytesIO(random.bytes(member.size)))
    return file.getvalue()


def wav() -> bytes:
    """Return ten seconds of 44.1 kHz stereo."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(44_100)
        sound.writeframes(np.random.default_rng(0).bytes(441_000 * 4))
    return file.getvalue()

"""Images and sounds that are read from files which are opened for the item."""
# mypy: ignore-errors

import io
import os
import os.path as osp
from glob import glob

import numpy as np
import torch
from PIL import Image
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe
from torch.utils.data import Dataset

import spdl.io
from spdl.source import ImageFolder as SpdlImageFolder
from spdl.source import ImageList


def write_images(folder):
    """Write images into folders named for their class."""
    for idx in range(SIZE):
        path = folder / "cat" if idx % 2 else folder / "dog"
        path.mkdir(exist_ok=True)
        pixels = np.random.default_rng(idx).integers(0, 256, (10, 12, 3), np.uint8)
        Image.fromarray(pixels).save(path / f"{idx:03}.png")


IMG_EXTENSIONS = (".jpg", ".jpeg", ".png")


def pil_loader(path):
    with open(path, "rb") as f:
        img = Image.open(f)
        return img.convert("RGB")


class ImageFolder(Dataset):
    """Reads images of folders named for their class."""

    def __init__(self, root, transform=None, loader=pil_loader):
        self.root = str(root)
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = []
        for name in self.classes:
            for path in sorted(glob(osp.join(self.root, name, "*"))):
                if path.lower().endswith(IMG_EXTENSIONS):
                    self.samples.append((path, self.class_to_idx[name]))
        self.transform = transform
        self.loader = loader

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        return sample, target


def to_tensor(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)


@safe("PIL")
def image_folder(folder):
    write_images(folder)
    return {"dataset": ImageFolder(folder, to_tensor), "shuffle": True}


class ConvertedImages(Dataset):
    """Opens, converts, resizes, crops and flips with Pillow."""

    def __init__(self, folder):
        self.paths = sorted(folder.rglob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        img = Image.open(self.paths[i]).convert("RGB")
        w, h = img.size
        img = img.resize((w // 2, h // 2), Image.BILINEAR)
        if i % 2:
            img = img.transpose(Image.FLIP_LEFT_RIGHT)
        x = np.array(img, dtype=np.float32) / 255.0
        x = (x - 0.5) / 0.25
        return torch.from_numpy(x[:, ::-1].copy().transpose(2, 0, 1)), self.paths[i].stem


@safe("PIL")
def images_with_pillow(folder):
    write_images(folder)
    return {"dataset": ConvertedImages(folder)}


class ImagesInAWithBlock(ConvertedImages):
    """Opens images in a with block."""

    def __getitem__(self, i):
        with Image.open(self.paths[i]) as img:
            gray = img.convert("L").crop((0, 0, 4, 4))
        return np.array(gray), str(self.paths[i].parent.name)


@safe("PIL")
def images_in_a_with_block(folder):
    write_images(folder)
    return {"dataset": ImagesInAWithBlock(folder)}


class ImageAndMask(ConvertedImages):
    """Pastes and draws on images that it made, as segmentation does."""

    def __getitem__(self, i):
        image = Image.open(self.paths[i]).convert("RGB")
        canvas = Image.new("RGB", (16, 16))
        canvas.paste(image, (2, 2))
        mask = np.array(canvas)[..., 0] > 100
        mask[:2] = False
        return np.array(canvas).copy(), mask.astype(np.int64)


@safe("PIL")
def image_and_mask(folder):
    write_images(folder)
    return {"dataset": ImageAndMask(folder)}


class EncodedImages(Dataset):
    """Decodes images from bytes in memory."""

    def __init__(self, folder):
        self.blobs = [path.read_bytes() for path in sorted(folder.rglob("*.png"))]

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, i):
        return np.array(Image.open(io.BytesIO(self.blobs[i])).convert("RGB"))


@safe("PIL")
def images_in_memory(folder):
    write_images(folder)
    return {"dataset": EncodedImages(folder)}


class SpdlImages(Dataset):
    """Loads images with spdl."""

    def __init__(self, folder):
        self.paths = sorted(str(path) for path in folder.rglob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        scale = spdl.io.get_video_filter_desc(scale_width=8, scale_height=8, pix_fmt="rgb24")
        return spdl.io.to_torch(spdl.io.load_image(self.paths[idx], filter_desc=scale))


@safe("PIL")
def spdl_load_image(folder):
    write_images(folder)
    return {"dataset": SpdlImages(folder)}


class SpdlSounds(Dataset):
    """Loads sounds with spdl."""

    def __init__(self, folder):
        import wave

        self.paths = []
        for idx in range(SIZE):
            path = str(folder / f"{idx}.wav")
            with wave.open(path, "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(8000)
                file.writeframes(np.full(80, idx, np.int16).tobytes())
            self.paths.append(path)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        return spdl.io.to_numpy(spdl.io.load_audio(self.paths[idx])).copy()


@safe()
def spdl_load_audio(folder):
    return {"dataset": SpdlSounds(folder)}


class SpdlSource(Dataset):
    """Loads what a source of spdl names."""

    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.source)

    def __getitem__(self, idx):
        sample = self.source[idx]
        return spdl.io.to_torch(spdl.io.load_image(sample.image)), sample.label


@safe("PIL")
def spdl_image_folder(folder):
    write_images(folder)
    return {"dataset": SpdlSource(SpdlImageFolder(str(folder)))}


@safe("PIL")
def spdl_image_list(folder):
    write_images(folder)
    paths = sorted(str(path) for path in folder.rglob("*.png"))
    return {"dataset": SpdlSource(ImageList([(path, idx % 5) for idx, path in enumerate(paths)]))}

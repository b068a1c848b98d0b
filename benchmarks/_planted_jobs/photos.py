"""Photos that Pillow decodes, in one worker: the other core has little to do."""

import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from _training import train
from PIL import Image
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "CPU": "Three quarters of the time of an item are in Pillow's decoder; the rest makes it smaller.",
    },
    "remedies": {"images": {"LOADER": "image"}},
}


class Photos:
    def __init__(self, folder):
        colours = np.random.default_rng(0).integers(0, 256, (32, 24, 32, 3), np.uint8)
        self.files = [os.path.join(folder, f"{number}.jpg") for number in range(len(colours))]
        for file, pixels in zip(self.files, colours, strict=True):
            Image.fromarray(pixels).resize((800, 600)).save(file, quality=92)

    def __len__(self):
        return 640

    def __getitem__(self, index):
        with Image.open(self.files[index % len(self.files)]) as photo:
            return np.array(photo.convert("RGB").resize((224, 224), Image.Resampling.NEAREST))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        photos = Photos(folder)
        if os.environ.get("LOADER") == "image":
            from spdl.dataloader import ImageLoader

            files = [(Path(photos.files[index % len(photos.files)]), 0) for index in range(len(photos))]
            # The same batches: a sum of floats would take a tenth of the time.
            loader = ImageLoader(files, batch_size=8, size=224, mode="stretch", layout="NHWC", dtype="uint8")
            train(loader, lambda batch: torch.sum(batch.image))
        else:
            train(DataLoader(photos, batch_size=8, num_workers=1), torch.sum)

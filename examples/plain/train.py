"""Train a small network on folders of photos, one folder for each class: `python train.py FOLDER EPOCHS`."""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

try:
    from PIL import Image
except ImportError:
    sys.exit("The photos are decoded with Pillow, which is missing: pip install 'spdl-turbo[demo]'")

# The other way: from torch.utils.data import DataLoader
from spdl.dataloader import PyTorchDataLoader as DataLoader


class Photos:
    """Maps a number to a photo and its class."""

    def __init__(self, root: str) -> None:
        self.files = sorted(Path(root).glob("*/*.jpg"))
        self.classes = sorted({file.parent.name for file in self.files})
        if not self.files:
            sys.exit(f"There is no {root}/CLASS/PHOTO.jpg")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.files[index]) as file:
            pixels = bytearray(file.convert("RGB").resize((32, 32)).tobytes())
        image = torch.frombuffer(pixels, dtype=torch.uint8).view(32, 32, 3).permute(2, 0, 1) / 255
        return image, self.classes.index(self.files[index].parent.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="has a folder of JPEGs for each class")
    parser.add_argument("epochs", metavar="EPOCHS", type=int)
    options = parser.parse_args()
    torch.manual_seed(0)
    dataset = Photos(options.folder)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(3 * 32 * 32, len(dataset.classes)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(options.epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.9f}", flush=True)

"""Train a small network to segment photos of PASCAL VOC's layout: `python segmentation.py FOLDER EPOCHS`.

`python objects_on_photos.py FOLDER 120` makes such a folder.
"""

import argparse

import torch
from torch import nn

from spdl.dataloader import ImageAugment, ImageBatch, ImageLoader, Mask
from spdl.source import VOCSegmentation

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IGNORED = 255


def make_loader(folder: str, part: str) -> ImageLoader:
    """Return a loader of images, float32 (B, 3, 96, 96), and of masks, int64 (B, 96, 96)."""
    train = part == "train"
    return ImageLoader(
        VOCSegmentation(folder, part),
        batch_size=8,
        size=96,
        # Pieces of 96 x 96 pixels out of images of half to twice their size; what lies beyond is to be ignored.
        augment=ImageAugment(scale=None, zoom=(0.75, 1.5), brightness=0.2) if train else "eval",
        mode="pad",
        targets={"mask": Mask(ignore_index=IGNORED)},
        shuffle=train,
        drop_last=train,
        seed=1,
        mean=MEAN,
        std=STD,
    )


def make_model(num_classes: int) -> nn.Module:
    """Return a network that gives each pixel a score for each class."""
    layers: list[nn.Module] = []
    for inputs, outputs, apart in ((3, 24, 1), (24, 24, 2), (24, 24, 4), (24, 24, 8)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=apart, dilation=apart), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(24, num_classes, 1))


def validate(model: nn.Module, batches: ImageLoader, num_classes: int) -> float:
    """Return the mean over the classes of the intersection over union (mIoU)."""
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    model.eval()
    with torch.no_grad():
        for batch in batches:
            found, known = model(batch.image).argmax(1), batch.mask != IGNORED
            pairs = batch.mask[known] * num_classes + found[known]
            confusion += torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
    both = confusion.diag()
    return float((both / (confusion.sum(0) + confusion.sum(1) - both).clamp(min=1)).mean())


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: ImageBatch) -> float:
    """Train on a batch, and return its loss."""
    loss = nn.functional.cross_entropy(model(batch.image), batch.mask, ignore_index=IGNORED)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="has JPEGImages, SegmentationClass and ImageSets")
    parser.add_argument("epochs", metavar="EPOCHS", type=int)
    parser.add_argument("--classes", type=int, default=3, help="how many, with the background (default: %(default)s)")
    options = parser.parse_args()
    torch.manual_seed(0)
    training, validation = (make_loader(options.folder, part) for part in ("train", "val"))
    model = make_model(options.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(options.epochs):
        model.train()
        losses = [step(model, optimizer, batch) for batch in training]
        score = validate(model, validation, options.classes)
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} mIoU {score:.3f}", flush=True)

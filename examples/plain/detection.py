"""Train a small network to detect objects from annotations in COCO's JSON: `python detection.py FOLDER EPOCHS`.

`python objects_on_photos.py FOLDER 120` makes such a folder. On several ranks: `torchrun --nproc-per-node 2
detection.py FOLDER EPOCHS`.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from spdl.dataloader import Boxes, ImageAugment, ImageBatch, ImageLoader, Values
from spdl.source import CocoDetection

SIZE, CELL = 128, 8
LEAST_OVERLAP = 0.5


def read(folder: str, part: str) -> CocoDetection:
    """Return the photos and objects of a part."""
    return CocoDetection(f"{folder}/instances_{part}.json", f"{folder}/JPEGImages")


def make_loader(folder: str, part: str) -> ImageLoader:
    """Return a loader of images of 128 x 128 pixels, whole and with black borders, and of their objects."""
    train = part == "train"
    return ImageLoader(
        read(folder, part),
        batch_size=8,
        size=SIZE,
        mode="pad",
        augment=ImageAugment(scale=None, flip=0.5) if train else "eval",
        targets={"boxes": Boxes("xyxy"), "labels": Values(of="boxes")},
        shuffle=train,
        drop_last=train,
        # In validation no rank waits for another, and no image counts twice.
        even_batches=train,
        seed=1,
    )


def make_model(num_classes: int) -> nn.Module:
    """Return a network that says of each cell of 8 x 8 pixels which object has its centre there.

    It returns (B, 5 + classes, rows, columns): whether there is one, the four distances from the cell's middle to its
    sides, and a score for each class.
    """
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((3, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1), (64, 64, 1)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(64, 5 + num_classes, 1))


def middles(boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the row and the column of the cell of each box's centre, and the middle of that cell."""
    cells = ((boxes[:, :2] + boxes[:, 2:]) / 2 / CELL).long()
    return cells[:, 1], cells[:, 0], (cells + 0.5) * CELL


def loss_of(found: torch.Tensor, batch: ImageBatch) -> torch.Tensor:
    """Return the loss of a batch, summed over three questions."""
    wanted = torch.zeros_like(found[:, 0])
    losses = []
    for image, (boxes, labels) in enumerate(zip(batch.boxes, batch.labels, strict=True)):
        rows, columns, middle = middles(boxes)
        wanted[image, rows, columns] = 1
        here = found[image, :, rows, columns].T
        distances = torch.cat([middle - boxes[:, :2], boxes[:, 2:] - middle], 1) / SIZE
        losses.append(nn.functional.l1_loss(here[:, 1:5], distances, reduction="sum"))
        losses.append(nn.functional.cross_entropy(here[:, 5:], labels, reduction="sum"))
    whether = nn.functional.binary_cross_entropy_with_logits(found[:, 0], wanted, reduction="sum")
    return (whether + sum(losses)) / len(found)


def detect(found: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the boxes and the classes that an image's cells are sure of."""
    rows, columns = torch.nonzero(found[0] > 0, as_tuple=True)
    here = found[:, rows, columns].T
    middle = (torch.stack([columns, rows], 1) + 0.5) * CELL
    return torch.cat([middle - here[:, 1:3] * SIZE, middle + here[:, 3:5] * SIZE], 1), here[:, 5:].argmax(1)


def overlaps(boxes: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of all pairs."""
    low = torch.maximum(boxes[:, None, :2], others[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], others[None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    areas = [(each[:, 2:] - each[:, :2]).prod(-1) for each in (boxes, others)]
    return both / (areas[0][:, None] + areas[1] - both)


def count(model: nn.Module, loader: ImageLoader) -> torch.Tensor:
    """Return how many objects there are on this rank, and how many of them are found, in pixels of the originals."""
    counts = torch.zeros(2, dtype=torch.int64)
    source = loader.dataset
    model.eval()
    with torch.no_grad():
        for batch in loader:
            for found, geometry, index in zip(model(batch.image), batch.geometry, batch.index.tolist(), strict=True):
                boxes, labels = detect(found)
                boxes = geometry.inverse().boxes(boxes)
                sample = source[index]
                known = torch.tensor(sample["boxes"]).view(-1, 4)
                right = (overlaps(known, boxes) > LEAST_OVERLAP) & (torch.tensor(sample["labels"])[:, None] == labels)
                counts += torch.tensor([len(known), int(right.any(1).sum())])
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="has JPEGImages and instances_train.json")
    parser.add_argument("epochs", metavar="EPOCHS", type=int)
    options = parser.parse_args()
    together = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if together:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    training, validation = (make_loader(options.folder, part) for part in ("train", "val"))
    model = make_model(len(read(options.folder, "train").classes))
    shared = DistributedDataParallel(model) if together else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(options.epochs):
        model.train()
        losses = []
        for batch in training:
            loss = loss_of(shared(batch.image), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if together:
            # Those of BatchNorm differ from rank to rank.
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)
        counts = count(model, validation)
        if together:
            dist.all_reduce(counts)
        objects, right = counts.tolist()
        if validation.rank == 0:
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} found {right} of {objects}", flush=True)
    if together:
        dist.destroy_process_group()

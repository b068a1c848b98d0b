"""Train as train.py does, save at SIGTERM, and go on in the middle of the epoch.

Run it as `python train_and_resume.py FOLDER EPOCHS CHECKPOINT`, and again after a stop.
"""

import argparse
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from train import Photos  # type: ignore[import-not-found]

from spdl.dataloader import PyTorchDataLoader as DataLoader

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="has a folder of JPEGs for each class")
    parser.add_argument("epochs", metavar="EPOCHS", type=int)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="where it saves, and goes on from")
    options = parser.parse_args()
    folder, epochs, checkpoint = options.folder, options.epochs, options.checkpoint
    torch.manual_seed(0)
    dataset = Photos(folder)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(3 * 32 * 32, len(dataset.classes)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    first_epoch = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        first_epoch = saved["epoch"]
        torch.set_rng_state(saved["random"])
    asked: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("to stop"))
    for epoch in range(first_epoch, epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.9f}", flush=True)
            if asked:
                states = {name: part.state_dict() for name, part in parts.items()}
                torch.save({**states, "epoch": epoch, "random": torch.get_rng_state()}, checkpoint)
                sys.exit("saved: run me again to go on")

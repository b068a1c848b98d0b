"""A program for two ranks: Accelerate leaves the ready-made loaders as they are, and saves and restores their states.

It is called with a folder for checkpoints, and prints a line of JSON for each rank.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches
from tests.dataloader.pytorch.ready_made import KINDS, make_loader, numbers_of

CUT = 3


def read(loader: Any) -> list[list[int]]:
    """Return the batches of an epoch."""
    return [numbers_of(batch) for batch in loader]


def begin(kind: str) -> tuple[Any, Any, bool]:
    """Return an accelerator with a loader that belongs to its checkpoints."""
    accelerator = Accelerator(cpu=True)
    loader = make_loader(kind)
    model = torch.nn.Linear(1, 1)
    _, _, prepared = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    accelerator.register_for_checkpointing(loader)
    return accelerator, prepared, prepared is loader


def main() -> None:
    """Read two epochs, cut the second one, and go on from the checkpoint."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        accelerator, loader, same = begin(kind)
        found["rank"] = accelerator.process_index
        told = ""
        try:
            skip_first_batches(loader, 1)
        except AttributeError as error:
            told = str(error)
        whole = [read(loader), read(loader)]
        accelerator, loader, _ = begin(kind)
        first = read(loader)
        begun = [numbers_of(batch) for batch in islice(iter(loader), CUT)]
        folder = f"{sys.argv[1]}/{kind}"
        accelerator.save_state(folder)
        accelerator.wait_for_everyone()
        accelerator, loader, _ = begin(kind)
        accelerator.load_state(folder)
        again = [first, begun + read(loader)]
        found[kind] = {"same": same, "told": told, "whole": whole, "again": again}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()

"""A program for two ranks: Accelerate's `prepare()` shards our loader, which goes on in the middle of an epoch.

It prints a line of JSON for each rank.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from accelerate import Accelerator, skip_first_batches

from spdl.dataloader import PyTorchDataLoader

ITEMS, CUT = 53, 3


class Numbers:
    """Its items are their numbers."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


def make_loader(accelerator: Any, *, ours: bool) -> Any:
    """Return a prepared loader, with ours inside or as Accelerate makes it."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(4)
    loader = PyTorchDataLoader(Numbers(), 4, shuffle=True, num_workers=2, generator=generator)
    prepared = accelerator.prepare(loader)
    if ours:
        prepared.base_dataloader = PyTorchDataLoader.like(prepared.base_dataloader)
    return prepared


def read(loader: Any) -> list[list[int]]:
    """Return the batches of an epoch."""
    return [batch.tolist() for batch in loader]


def main() -> None:
    """Iterate two epochs, then cut the second one."""
    accelerator = Accelerator(cpu=True)
    theirs, ours = (make_loader(accelerator, ours=it) for it in (False, True))
    found: dict[str, Any] = {"rank": accelerator.process_index, "theirs": [read(theirs), read(theirs)]}
    found["ours"] = [read(ours), read(ours)]
    found["workers"] = ours.base_dataloader.worker_choice.kind
    cut = make_loader(accelerator, ours=True)
    found["again"] = [read(cut)]
    begun = []
    for batch in cut:
        begun.append(batch.tolist())
        if len(begun) == CUT:
            break
    state = json.loads(json.dumps(cut.state_dict()))
    other = make_loader(accelerator, ours=True)
    other.load_state_dict(state)
    found["again"].append(begun + read(other))
    found["skipped"] = len(read(skip_first_batches(theirs, CUT)))
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()

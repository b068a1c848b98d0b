"""A program for two ranks: Lightning's Trainer trains with the ready-made loaders, saves in an epoch, and goes on.

It is called with a folder for checkpoints, and prints a line of JSON for each rank. The processes are started by
torchrun, or else by the Trainer.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tests.dataloader.pytorch.ready_made import KINDS, make_loader, numbers_of

CUT = 10


class Recording(lightning.LightningModule):  # type: ignore[misc] # mypy sees no types of Lightning's.
    """Notes what it is trained with."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[Any] = []

    def train_dataloader(self) -> Any:
        # When the Trainer asks, the process knows its rank, whoever has started it.
        return make_loader(self.kind)

    def training_step(self, batch: Any, _index: int) -> Any:
        self.seen.append((self.current_epoch, numbers_of(batch)))
        return self.layer(torch.ones(1, 1)).mean() * 0

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(kind: str, folder: str, checkpoint: str | None) -> tuple[Any, list[Any]]:
    """Return the trainer, and what it trained with."""
    model = Recording(kind)
    saving = ModelCheckpoint(dirpath=folder, every_n_train_steps=1, save_top_k=-1, filename="{step}")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=3,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[saving],
    )
    # The ready-made loaders find their rank later, too.
    loader = make_loader(kind) if kind == "images" else None
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return trainer, model.seen


def main() -> None:
    """Train without a stop, and again from a checkpoint in the middle of the second epoch."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    found: dict[str, Any] = {}
    for kind in KINDS:
        folder = f"{sys.argv[1]}/{kind}"
        trainer, whole = train(kind, folder, None)
        _, rest = train(kind, f"{folder}/again", f"{folder}/step={CUT}.ckpt")
        found["rank"] = trainer.global_rank
        found[kind] = {"class": type(trainer.train_dataloader).__name__, "whole": whole, "rest": rest}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()

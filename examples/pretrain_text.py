#!/usr/bin/env python3
"""Pretrain a small transformer on text, kill it, go on with other numbers of processes, and compare the losses.

The text is the source code of Python's standard library, which is on any machine. With ``--checkpoint FILE`` the
program is one process of a training run: it goes on from the file if there is one, and writes it every few steps.
Without it, the program runs itself that way: once in one process undisturbed, and once in 1, 2, 3 and again 1 processes
that are killed by SIGKILL in turn. The global batch stays the same, and so do the losses, to the last bit.

Two things make that so. All ranks together get the same rows in each step, whatever their number. And gradients are
added up row by row in the order of the rows: a sum of another order would differ in its last digits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from _program.options import make_parser, positive
from _program.plots import Line, Panel
from _program.progress import end, tell
from _program.record import Record, finish
from _program.table import print_table
from spdl.dataloader import TextLoader, Tokenize

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["main", "make_loader", "run_and_kill", "train"]

LENGTH = 128
VOCABULARY = 257
IGNORED = -100
"""The label where no token is to be predicted."""
END = 256
"""The token at the end of each document; the others are bytes."""


def read_texts(count: int) -> list[str]:
    """Return some modules of the standard library as texts."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return [file.read_text(encoding="utf-8") for file in files[:count]]


def encode(text: str) -> bytes:
    """Return a token for each byte. A real run would take a tokenizer of `tokenizers`."""
    return text.encode()


def make_loader(texts: Sequence[str], global_batch: int) -> TextLoader:
    """Return a loader of the part of this rank: packed rows, in another order each epoch."""
    world_size = dist.get_world_size()
    if global_batch % world_size:
        raise ValueError(f"the global batch of {global_batch} rows cannot be shared by {world_size} processes")
    return TextLoader(
        texts,
        global_batch // world_size,
        length=LENGTH,
        tokenizer=Tokenize(lambda text: list(encode(text)), eos_token_id=END),
        window=16,
        shuffle=True,
        seed=1,
        drop_last=True,
        num_threads=1,
    )


class Block(nn.Module):  # type: ignore[misc]
    """A layer of a transformer, in which a token sees the earlier ones of its document."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the next layer's input of the shape (rows, length, width)."""
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):  # type: ignore[misc]
    """A small transformer for packed rows."""

    def __init__(self, width: int = 32, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor, position_ids: Tensor, segment_ids: Tensor) -> Tensor:
        """Return the logits of the next tokens."""
        same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
        mask = same & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        x = self.tokens(tokens) + self.positions(position_ids)
        for block in self.blocks:
            x = block(x, mask)
        logits: Tensor = self.head(x)
        return logits


def add_up(model: nn.Module, batch: Any) -> float:
    """Set the gradients of a step of all ranks, and return its loss."""
    found = []
    for row in range(len(batch.tokens)):
        model.zero_grad()
        part = slice(row, row + 1)
        logits = model(batch.tokens[part], batch.position_ids[part], batch.segment_ids[part])
        labels = batch.labels[part].long()
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        loss.backward()
        counted = torch.stack([loss.detach(), (labels != IGNORED).sum()])
        found.append(torch.cat([counted, *(each.grad.flatten() for each in model.parameters())]))
    mine = torch.stack(found)
    # The ranks have the rows of the step one after the other.
    everything = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, mine)
    loss, count, *_ = total = torch.cat(everything).sum(0)
    gradients = total[2:] / count
    for each, gradient in zip(
        model.parameters(), gradients.split([each.numel() for each in model.parameters()]), strict=True
    ):
        each.grad = gradient.view_as(each)
    return float(loss / count)


def train(checkpoint: Path, *, texts: int, global_batch: int, steps: int, every: int) -> None:
    """Train as one rank of a run, and print the loss of each step.

    Args:
        checkpoint: The file to go on from, if it is there.
        texts: How many texts there are.
        global_batch: The rows of a step of all ranks.
        steps: How many steps the whole run has.
        every: The number of steps between two checkpoints.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = make_loader(read_texts(texts), global_batch)
    step = 0
    if checkpoint.exists():
        states = torch.load(checkpoint)
        model.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])
        loader.load_state_dict(states["loader"])
        step = states["step"]
    while step < steps:
        for batch in loader:
            loss = add_up(model, batch)
            optimizer.step()
            step += 1
            if dist.get_rank() == 0:
                print(json.dumps([step, loss]), flush=True)
                if step % every == 0:
                    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    partial = checkpoint.with_suffix(".partial")
                    # The same on all ranks.
                    torch.save({**states, "loader": loader.state_dict(), "step": step}, partial)
                    partial.replace(checkpoint)
            if step == steps:
                return


class Part(NamedTuple):
    """A part of a run."""

    processes: int
    until: int | None
    """The step after which it is killed; None lets it come to its end."""


def run_and_kill(arguments: Sequence[str], folder: Path, parts: Sequence[Part]) -> list[float]:
    """Run this program in several processes, kill them, go on with others, and return the losses of all steps.

    Args:
        arguments: The arguments of the program.
        folder: A folder for its checkpoint.
        parts: How many processes to take in turn, and how long.
    """
    losses: dict[int, float] = {}
    for number, (count, until) in enumerate(parts):
        command = [sys.executable, __file__, *arguments, "--checkpoint", str(folder / "checkpoint.pt")]
        meeting = f"file://{folder}/meeting-{number}"
        processes = [
            subprocess.Popen(  # noqa: S603 - our own file.
                command,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                text=True,
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count), "MEETING": meeting},
            )
            for rank in range(count)
        ]
        try:
            for line in processes[0].stdout or ():
                step, loss = json.loads(line)
                # Steps after the last checkpoint are taken again.
                assert losses.setdefault(step, loss) == loss, f"step {step} has another loss when it is taken again"
                tell(f"run {number + 1}, {count} processes, step {step}, loss {loss:.4f}")
                if step == until:
                    break
        finally:
            for process in processes:
                process.kill() if until is not None else process.wait()
            for process in processes:
                with process:
                    pass
        if until is None and any(process.returncode for process in processes):
            raise subprocess.CalledProcessError(1, command)
    end()
    return [losses[step] for step in sorted(losses)]


def panels(measured: Record) -> list[Panel]:
    """Return the panel to draw: the losses of both runs against the steps."""
    steps = [row["step"] for row in measured["rows"]]
    lines = {
        name: Line(steps, [row[key] for row in measured["rows"]], ours=key == "resumed_loss")
        for name, key in (("undisturbed", "loss"), ("killed and resumed", "resumed_loss"))
    }
    return [Panel("Loss of each step", "step", "loss", lines)]


def train_as_rank(options: argparse.Namespace) -> None:
    """Train as one of the processes that this program has started."""
    place = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    dist.init_process_group("gloo", init_method=os.environ["MEETING"], **place)
    train(
        options.checkpoint,
        texts=options.texts,
        global_batch=options.global_batch,
        steps=options.steps,
        every=options.every,
    )
    dist.destroy_process_group()


def main() -> None:
    """Train, or compare two runs, print and write the results."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="train, from and to this checkpoint")
    parser.add_argument("--texts", type=positive, default=100, help="texts to train on (default: %(default)s)")
    parser.add_argument(
        "--global-batch", type=positive, default=6, help="rows in a step, a multiple of 6 (default: %(default)s)"
    )
    parser.add_argument("--steps", type=positive, default=200, help="steps to train for (default: %(default)s)")
    parser.add_argument(
        "--every", type=positive, default=5, help="steps between two checkpoints (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.quick:
        options.texts, options.steps, options.every = 4, 12, 2
    if options.checkpoint:
        train_as_rank(options)
        return
    arguments = [f"--{name}={getattr(options, name.replace('-', '_'))}" for name in ("texts", "steps", "every")]
    arguments.append(f"--global-batch={options.global_batch}")
    counts = (2,) if options.quick else (1, 2, 3)
    parts = [Part(count, options.steps * number // 4) for number, count in enumerate(counts, start=1)]
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        losses = run_and_kill(arguments, Path(first), [Part(1, None)])
        resumed = run_and_kill(arguments, Path(second), [*parts, Part(1, None)])
    rows: list[dict[str, Any]] = [
        {"step": step, "loss": loss, "resumed_loss": other}
        for step, (loss, other) in enumerate(zip(losses, resumed, strict=True), start=1)
    ]
    shown = rows[:: max(len(rows) // 20, 1)]
    print_table(
        ("step", "loss", "when killed and resumed"),
        ((row["step"], f"{row['loss']:.6f}", f"{row['resumed_loss']:.6f}") for row in shown),
    )
    kills = [part.until for part in parts]
    print(f"killed after the steps {', '.join(map(str, kills))}; the same losses: {losses == resumed}")
    measured = {"rows": rows, "kills": kills, "same": losses == resumed, "global_batch": options.global_batch}
    finish(options, measured, "A run that was killed, and one that was not", panels)


if __name__ == "__main__":
    main()

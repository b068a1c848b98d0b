"""A transformer loses the same on packed documents as on each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spdl.io import RowWriter
from spdl.source import PackedOrder

torch = pytest.importorskip("torch")

WIDTH, HEADS, VOCABULARY = 16, 2, 50


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.positions = torch.nn.Embedding(64, WIDTH)
        self.projections = torch.nn.ModuleList([torch.nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)])
        self.outputs = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)])
        self.logits = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Any, positions: Any, mask: Any) -> Any:
        batch, length = tokens.shape
        found = self.tokens(tokens) + self.positions(positions)
        for projection, output in zip(self.projections, self.outputs, strict=True):
            query, key, value = (
                each.reshape(batch, length, HEADS, -1).transpose(1, 2) for each in projection(found).chunk(3, -1)
            )
            attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            found = found + torch.tanh(output(attended.transpose(1, 2).reshape(batch, length, WIDTH)))
        return self.logits(found)


def losses(model: Model, batch: dict[str, Any]) -> Any:
    """Return the loss at each token, with the mask of the batch's segments."""
    arrays = {
        name: torch.from_numpy(batch[name]).long() for name in ("tokens", "position_ids", "segment_ids", "labels")
    }
    segments = arrays["segment_ids"]
    length = segments.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    mask = (segments[:, :, None] == segments[:, None, :]) & causal
    logits = model(arrays["tokens"], arrays["position_ids"], mask[:, None])
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), arrays["labels"].reshape(-1), ignore_index=-100, reduction="none"
    ).reshape(segments.shape)


@pytest.mark.parametrize("algorithm", ["best-fit", "first-fit", "concat"])
def test_packed_rows_have_the_loss_of_each_document_alone(algorithm: Any) -> None:
    random = np.random.default_rng(3)
    documents = [random.integers(0, VOCABULARY, size) for size in random.integers(2, 30, 25)]
    masks = [random.random(each.size) < 0.8 for each in documents]
    model = Model()
    order = PackedOrder([each.size for each in documents], 64, algorithm=algorithm, split="never", align=2)
    rows = order.rows(order.take(0, np.arange(len(order))))
    batch = RowWriter(64, align=2)(rows, documents, masks)
    packed = losses(model, batch)
    for row in range(len(order)):
        numbers = rows.documents[rows.offsets[row] : rows.offsets[row + 1]]
        for segment, number in enumerate(numbers.tolist(), 1):
            size = documents[number].size
            alone = PackedOrder([size], size)
            single = RowWriter(size)(alone.rows(alone.take(0, np.array([0]))), [documents[number]], [masks[number]])
            expected = losses(model, single)[0]
            found = packed[row][torch.from_numpy(batch["segment_ids"][row] == segment)][:size]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)

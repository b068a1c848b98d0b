"""Real text, tokenizers for it, and what rows are made of."""

import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

END = 1


@cache
def sources() -> list[str]:
    """Return the modules of the standard library, which are on any machine."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-d]*.py"))
    return [file.read_text(encoding="utf-8") for file in files]


def words(count: int) -> list[str]:
    """Return texts of some lines, also empty ones."""
    lines = [line for text in sources() for line in text.splitlines(keepends=True)]
    sizes = np.random.default_rng(0).geometric(0.3, count) - 1
    ends = np.cumsum(sizes)
    return ["".join(lines[end - size : end])[:150] for size, end in zip(sizes, ends, strict=True)]


def letters(text: str) -> list[int]:
    """Return a token for each letter: a tokenizer that anybody can check."""
    return [ord(letter) for letter in text]


def needs_tokenizers() -> Any:
    return pytest.importorskip("tokenizers", reason="needs tokenizers")


@cache
def trained() -> Any:
    """Return a byte-level BPE tokenizer of `tokenizers`, trained on real text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415 - an optional package.

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(sources()[:10], trainer)
    return tokenizer


def documents_in(batches: Iterable[Any]) -> dict[int, NDArray[np.int32]]:
    """Return the documents that lie in rows, put together from their parts by the bounds that batches have.

    Raises:
        AssertionError: If a token is missing or comes twice.
    """
    parts: dict[int, list[tuple[int, int, Any]]] = {}
    for batch in batches:
        for row in range(len(batch.tokens)):
            first, last = batch.row_splits[row], batch.row_splits[row + 1]
            bounds = batch.cu_seqlens[first : last + 1] - row * batch.tokens.shape[1]
            inside = batch.documents[batch.documents[:, 0] == row]
            for (_, document, start, stop), begin in zip(inside.tolist(), bounds[:-1].tolist(), strict=False):
                tokens = batch.tokens[row, begin : begin + stop - start]
                parts.setdefault(document, []).append((start, stop, tokens))
    whole = {}
    for document, pieces in parts.items():
        pieces.sort(key=lambda piece: piece[0])
        assert [start for start, _, _ in pieces] == [0, *(stop for _, stop, _ in pieces[:-1])]
        whole[document] = np.concatenate([tokens for _, _, tokens in pieces])
    return whole


def rows_of(batch: Any) -> list[tuple[int, bytes]]:
    """Return what rows are without their padding, as values that can be compared."""
    return [(int(index), row.tobytes().rstrip(b"\0")) for index, row in zip(batch.index, batch.tokens, strict=True)]

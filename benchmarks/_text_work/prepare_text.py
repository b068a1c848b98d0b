"""Writes the texts that the contenders of a row read, as JSON lines, and a tokenizer that was trained on them.

The text is the source code of Python's standard library, cut into documents of lognormal lengths.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

VOCABULARY = 8192


def main(folder: Path, documents: int) -> dict[str, float]:
    """Write documents and a tokenizer."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    text = "".join(
        file.read_text(encoding="utf-8", errors="ignore") for file in files if "site-packages" not in file.parts
    )
    # Three to four characters make a token.
    lengths = np.maximum(np.random.default_rng(0).lognormal(np.log(1400), 1, documents), 1).astype(np.int64)
    starts = np.cumsum(lengths) % len(text)
    texts = [text[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": each, "id": number}) + "\n" for number, each in enumerate(texts))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts[:2000], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return {"characters": sum(map(len, texts))}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(Path(given["folder"]), given["documents"])))

"""What `tokenizers` keeps for good once it was used."""

from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session", autouse=True)
def threads_of_tokenizers() -> None:
    """Start the library's threads, which no test leaves behind."""
    if find_spec("tokenizers") is not None:
        from tokenizers import Tokenizer, models  # noqa: PLC0415 - an optional package.

        Tokenizer(models.BPE()).encode_batch(["a"] * 100)

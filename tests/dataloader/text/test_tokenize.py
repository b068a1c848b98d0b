"""`Tokenize`: the ids that the tokenizers' own calls give, from any number of threads, and texts that fail alone."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.text.texts import letters, needs_tokenizers, sources, trained, words

from spdl.dataloader import Pack, Tokenize
from spdl.pipeline import PipelineBuilder


def as_lists(found: Any) -> list[list[int] | None]:
    return [None if ids is None else ids.tolist() for ids in found]


def test_tokenize_gives_the_ids_of_encode(tmp_path: Path) -> None:
    needs_tokenizers()
    tokenizer, texts = trained(), words(200)
    expected = [tokenizer.encode(text).ids for text in texts]
    found = Tokenize(tokenizer)(texts)
    assert as_lists(found) == expected
    assert {ids.dtype for ids in found if ids is not None} == {np.dtype(np.int32)}
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert as_lists(Tokenize(tmp_path / "tokenizer.json")(texts)) == expected
    assert as_lists(Tokenize(tokenizer)([text.encode() for text in texts])) == expected


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_tokenize_keeps_the_order_of_long_and_short_texts(parallel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_tokenizers()
    # By this the library decides who tokenizes a list, and `Tokenize` which texts are in one.
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", parallel)
    tokenizer, long = trained(), sources()[0]
    texts = [long[:size] for size in (0, 300, 5, 5000, 1, 199, 200, 4096, 0)]
    assert as_lists(Tokenize(tokenizer)(texts)) == [tokenizer.encode(text).ids for text in texts]


def test_tokenize_gives_each_of_eight_threads_the_ids_of_one() -> None:
    needs_tokenizers()
    tokenize, texts = Tokenize(trained()), words(800)
    expected = as_lists(tokenize(texts))
    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(tokenize, [texts[first : first + 10] for first in range(0, len(texts), 10)])
    assert [ids for part in parts for ids in as_lists(part)] == expected


def test_tokenize_neither_pads_nor_truncates_and_leaves_the_tokenizer_as_it_is() -> None:
    needs_tokenizers()
    tokenizer = copy.deepcopy(trained())
    expected = [tokenizer.encode(text).ids for text in sources()[:3]]
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=16)
    tokenize = Tokenize(tokenizer)
    assert as_lists(tokenize(sources()[:3])) == expected
    assert (tokenizer.truncation["max_length"], tokenizer.padding["length"]) == (8, 16)


def test_tokenize_puts_what_the_template_says_around_a_text_unless_told_not_to() -> None:
    needs_tokenizers()
    from tokenizers.processors import TemplateProcessing  # noqa: PLC0415

    tokenizer = copy.deepcopy(trained())
    tokenizer.post_processor = TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", 0)])
    plain = trained().encode("import os").ids
    assert Tokenize(tokenizer)("import os").tolist() == [0, *plain]
    assert Tokenize(tokenizer, add_special_tokens=False)("import os").tolist() == plain


def test_tokenize_uses_a_tokenizer_with_parts_in_python_itself() -> None:
    needs_tokenizers()
    from tokenizers import pre_tokenizers  # noqa: PLC0415

    class Lines:
        def pre_tokenize(self, text: Any) -> None:
            text.split(lambda _, part: part.split("\n", "isolated"))

    tokenizer = copy.deepcopy(trained())
    custom: Any = pre_tokenizers.PreTokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([custom.custom(Lines()), trained().pre_tokenizer])
    text = "import os\nimport sys\n"
    assert Tokenize(tokenizer)(text).tolist() == tokenizer.encode(text).ids
    tokenizer.enable_truncation(2)
    with pytest.raises(ValueError, match=r"`tokenizer` must be .* neither pads nor truncates"):
        Tokenize(tokenizer)


def test_tokenize_takes_what_wraps_a_tokenizer_as_transformers_does() -> None:
    needs_tokenizers()

    class Fast:
        backend_tokenizer = trained()

    assert Tokenize(Fast())("import os").tolist() == trained().encode("import os").ids


def test_tokenize_takes_an_encoding_of_tiktoken() -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="needs tokenizers or tiktoken")
    ranks = {bytes([value]): value for value in range(256)} | {b"im": 256, b"port": 257, b"import": 258}
    encoding = tiktoken.Encoding(
        "bytes", pat_str=r"\w+|\W+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 259}
    )
    texts = [*words(50), "<|endoftext|>"]
    found = Tokenize(encoding, eos_token_id=259)(texts)
    assert as_lists(found) == [[*encoding.encode_ordinary(text), 259] for text in texts]


@given(st.lists(st.text(max_size=5), max_size=5), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_tokenize_puts_ids_around_each_text(texts: list[str], begin: int | None, end: int | None) -> None:
    around = [[] if each is None else [each] for each in (begin, end)]
    found = Tokenize(letters, bos_token_id=begin, eos_token_id=end)(texts)
    assert as_lists(found) == [[*around[0], *letters(text), *around[1]] for text in texts]


def test_tokenize_fails_a_text_alone() -> None:
    def picky(text: str) -> list[int]:
        if "b" in text:
            raise ValueError("no b please")
        return letters(text)

    texts: list[str | bytes] = ["a", "b", b"\xff", "cc"]
    assert as_lists(Tokenize(picky, on_error="skip")(texts)) == [[97], None, None, [99, 99]]
    with pytest.raises(ValueError, match="no b please") as caught:
        Tokenize(picky)(texts)
    assert caught.value.__notes__ == ["spdl.dataloader was tokenizing text 1 of 4"]
    with pytest.raises(ValueError, match="no b please"):
        Tokenize(picky, on_error="skip")("b")


def test_tokenize_fails_a_text_alone_among_those_of_one_call() -> None:
    needs_tokenizers()
    texts: list[Any] = ["import os", None, "lone \ud800 surrogate", b"\xff", "import sys"]
    found = Tokenize(trained(), on_error="skip")(texts)
    assert as_lists(found) == [trained().encode(texts[0]).ids, None, None, None, trained().encode(texts[4]).ids]
    with pytest.raises(ValueError, match=r"the text has '\\ud800' at character 5, which is half of a pair"):
        Tokenize(trained())(texts[2])


def test_tokenize_raises_what_is_about_no_text() -> None:
    def exhausted(text: str) -> list[int]:
        raise MemoryError

    with pytest.raises(MemoryError):
        Tokenize(exhausted, on_error="skip")(["a"])


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([0.5], "ids of a text as ints in one dimension, got float64"),
        ([[1, 2]], r"got int64 of the shape \(1, 2\)"),
        ([-1], "from 0 to 2147483647, got -1 to -1"),
        ([2**31], "from 0 to 2147483647, got 2147483648 to 2147483648"),
        ({"ids": [1]}, r"a mapping with `input_ids` or `tokens`, got a mapping with \['ids'\]"),
        ({"input_ids": [1], "loss_mask": [1, 0]}, "a bool or an int for each id, got int64"),
        ({"input_ids": [1, 2], "labels": [1]}, "`labels` that are the ids themselves, or -100"),
        ({"input_ids": [1, 2], "labels": [2, -100]}, "rename them, and give a `loss_mask`"),
        ({"input_ids": [1, 0], "attention_mask": [1, 0]}, "only 1 in `attention_mask`, got .*padding"),
        ({"input_ids": [1, 2], "attention_mask": np.array([True, False])}, "only 1 in `attention_mask`"),
        ({"input_ids": [1, 2], "token_type_ids": [0, 1]}, "only 0 in `token_type_ids`.*no types of tokens"),
    ],
)
def test_tokenize_refuses_what_are_no_ids(result: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        Tokenize(lambda _: result)("a")


def test_tokenize_takes_any_form_of_ids_from_a_function() -> None:
    forms: list[Any] = [[1, 2], (1, 2), np.array([1, 2], np.uint16), {"input_ids": [1, 2]}]
    forms.append({"input_ids": [1, 2], "attention_mask": [1, 1], "token_type_ids": [0, 0]})
    for form in forms:
        assert Tokenize(lambda _, form=form: form)("a").tolist() == [1, 2]
    assert Tokenize(lambda _: [])("").tolist() == []


def test_tokenize_keeps_the_masks_of_a_function() -> None:
    def chat(text: str) -> dict[str, Any]:
        return {"input_ids": letters(text), "assistant_masks": [letter.islower() for letter in text]}

    found: Any
    (found,) = Tokenize(chat, bos_token_id=2, eos_token_id=3)(["Hi"])
    assert found["tokens"].tolist() == [2, ord("H"), ord("i"), 3]
    assert found["loss_mask"].tolist() == [False, False, True, True]


def test_tokenize_can_be_pickled_after_use() -> None:
    needs_tokenizers()
    tokenize = Tokenize(trained())
    expected = tokenize("import os").tolist()
    assert pickle.loads(pickle.dumps(tokenize))("import os").tolist() == expected  # noqa: S301 - our own.


def test_tokenize_is_an_op_of_a_pipeline() -> None:
    texts = ["abc", "", "bad", "fghij"]

    def picky(text: str) -> list[int]:
        if text == "bad":
            raise ValueError(text)
        return letters(text)

    builder = PipelineBuilder().add_source(texts).aggregate(2)
    builder.pipe(Tokenize(picky, on_error="skip"), concurrency=2, output_order="input")
    pipeline = builder.disaggregate().aggregate(Pack(16)).disaggregate().add_sink().build(num_threads=2)
    with pipeline.auto_stop():
        (row,) = list(pipeline)
    assert [ids.tolist() for ids in row.tokens] == [letters("abc"), letters("fghij")]


@pytest.mark.parametrize("tokenizer", [3, None, "no/such/tokenizer.json"])
def test_tokenize_refuses_what_is_no_tokenizer(tokenizer: Any) -> None:
    if isinstance(tokenizer, str):
        needs_tokenizers()
    with pytest.raises((TypeError, ValueError), match="`tokenizer` must be"):
        Tokenize(tokenizer)


def test_tokenize_refuses_a_file_that_is_none(tmp_path: Path) -> None:
    needs_tokenizers()
    path = tmp_path / "tokenizer.json"
    path.write_text("nothing")
    with pytest.raises(ValueError, match=r"must be the path of a tokenizer\.json, got .* It cannot be read"):
        Tokenize(path)

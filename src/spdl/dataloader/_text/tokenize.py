"""Texts to token ids, by whatever tokenizer a program has."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_choice, check_flag, check_int, refuse, refuse_masked, refuse_set, show
from spdl.source._shared import Defect, is_defect

Ids: TypeAlias = "NDArray[np.int32]"

_NO_LABEL = -100
_LARGEST = 2**31 - 1
# So many characters go into one call of a tokenizer that releases the GIL. After a millisecond, taking the GIL again
# costs little.
_CHARACTERS = 4096
# The library hands a list of several texts to threads of its own, and to wait for these takes longer than to tokenize a
# text of this many characters. A list of one text it tokenizes in our thread.
_SHORT = 200
_THREADS = "TOKENIZERS_PARALLELISM"


class Encoded(NamedTuple):
    tokens: Ids
    """The ids, with those that begin and end a document."""
    loss_mask: NDArray[np.bool_] | None = None
    """Which tokens the loss is of; None for all."""


Encode: TypeAlias = Callable[[list[Any]], "list[Encoded]"]


class Tokenize:
    """Turns texts into the ids of their tokens, many at a time: an op of a stage, or the tokenizer of a loader.

    Any number of threads may call it. Tokenizers of Hugging Face's ``tokenizers`` hold the GIL in ``encode`` and not in
    ``encode_batch_fast``, which is used here, on a copy for each thread: threads do not wait for each other, and the
    tokenizer that you pass may be changed elsewhere. A copy neither pads nor truncates.

    Args:
        tokenizer: One of these:

            * a ``tokenizers.Tokenizer``, or the path of its file, ``tokenizer.json``;
            * a fast tokenizer of ``transformers``: its ``backend_tokenizer`` is used;
            * a ``tiktoken.Encoding``, for which text that looks like a special token is ordinary text;
            * any function that turns a text into ids, a sequence of ints or an array. It may return a mapping instead
              with ``input_ids`` and, as it likes, ``loss_mask`` with a flag for each token, which chat templates of
              ``transformers`` call ``assistant_masks``. Without one, ids whose ``labels`` are -100 are masked.
              Several threads call it at once.
        add_special_tokens: Whether a tokenizer of Hugging Face puts the tokens around a text that its own template
            says. Of no meaning for others.
        bos_token_id: An id to put before each text. None puts none.
        eos_token_id: An id to put after each text. None puts none.
        on_error: How to treat a text for which the tokenizer raises, or that is not UTF-8. ``"raise"`` raises.
            ``"skip"`` has None in its place. Errors that are not about a text, such as MemoryError, are always raised.

    Raises:
        ImportError: If a path is given and ``tokenizers`` is not installed.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from spdl.dataloader import Tokenize
        >>> tokenize = Tokenize(lambda text: [ord(letter) for letter in text], eos_token_id=0)
        >>> tokenize(["ab", "c"])
        [array([97, 98,  0], dtype=int32), array([99,  0], dtype=int32)]
        >>> tokenize("ab")
        array([97, 98,  0], dtype=int32)
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        add_special_tokens: bool = True,
        bos_token_id: int | None = None,
        eos_token_id: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        check_flag("add_special_tokens", add_special_tokens)
        check_choice("on_error", on_error, get_args(Literal["raise", "skip"]))
        self._skips = on_error == "skip"
        self._encoder = _encoder_of(tokenizer, add_special_tokens=add_special_tokens)
        self._begin = _as_ids("bos_token_id", bos_token_id)
        self._end = _as_ids("eos_token_id", eos_token_id)

    @overload
    def __call__(self, texts: str | bytes) -> Ids: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Sequence[str | bytes]) -> list[Ids | None]: ...
    def __call__(self, texts: str | bytes | Sequence[str | bytes]) -> Any:
        """Return the ids of a text, or of several.

        Args:
            texts: A text, or a sequence of texts. Bytes are UTF-8.

        Returns:
            A new int32 array for each text. Those of one call are views of one buffer. If a function has given a mask,
            it is a dict with ``tokens`` and ``loss_mask``, as `Pack` takes it.

        Raises:
            Exception: The tokenizer's exception, with a note that names the text, unless ``on_error="skip"``. For a
                single text it is always raised.
        """
        refuse_set("texts", texts)
        alone = isinstance(texts, str | bytes)
        found = self.encode([texts] if alone else list(texts))
        if alone or not self._skips:
            for place, each in enumerate(found):
                if isinstance(each, Failed):
                    each.error.add_note(f"spdl.dataloader was tokenizing text {place} of {len(found)}")
                    raise each.error
        listed: list[Any] = [None] * len(found)
        for place, each in enumerate(found):
            if isinstance(each, Encoded):
                tokens, mask = each
                listed[place] = tokens if mask is None else {"tokens": tokens, "loss_mask": mask}
        return listed[0] if alone else listed

    def encode(self, texts: Sequence[Any]) -> list[Encoded | Failed]:
        """Return the tokens of texts, or why a text has none, in its place.

        Raises:
            Exception: Errors that are not about one text.
        """
        found: dict[int, Encoded | Failed] = {}
        for places in self._encoder.parts(texts):
            found.update(zip(places, self._encode_part([texts[place] for place in places]), strict=True))
        return self._gather([found[place] for place in range(len(texts))])

    def _encode_part(self, texts: list[Any]) -> list[Encoded | Failed]:
        try:
            return list(self._encoder(texts))
        except Exception as error:
            if not is_defect(error):
                raise
            if len(texts) == 1:
                return [Failed(_say_surrogate(texts[0], error))]
        return [each for text in texts for each in self._encode_part([text])]

    def _gather(self, found: list[Encoded | Failed]) -> list[Encoded | Failed]:
        """Copy all ids into one buffer: small arrays by the thousand would scatter over the memory."""
        pieces = [
            piece for each in found if isinstance(each, Encoded) for piece in (self._begin, each.tokens, self._end)
        ]
        if not pieces:
            return found
        buffer = np.concatenate(pieces, dtype=np.int32)
        start = 0
        around = len(self._begin) + len(self._end)
        for place, each in enumerate(found):
            if isinstance(each, Encoded):
                stop = start + len(each.tokens) + around
                found[place] = Encoded(buffer[start:stop], self._widen(each.loss_mask))
                start = stop
        return found

    def _widen(self, mask: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Return a mask with places for the ids around a text. The loss leaves out its beginning, and not its end."""
        if mask is None:
            return None
        return np.concatenate([np.zeros(len(self._begin), bool), mask, np.ones(len(self._end), bool)])

    @property
    def name(self) -> str:
        """A text that tells tokenizers apart, as far as is known."""
        return f"{self._encoder.name}, bos={self._begin.tolist()}, eos={self._end.tolist()}"

    def __repr__(self) -> str:
        return f"Tokenize({self._encoder.name})"


def _say_surrogate(text: Any, error: Exception) -> Exception:
    """Return the error that a tokenizer raised, or one that says what is wrong with a text that is not Unicode."""
    try:
        _text_of(text).encode()
    except UnicodeEncodeError as wrong:
        half = ascii(wrong.object[wrong.start])
        said = ValueError(
            f"the text has {half} at character {wrong.start}, which is half of a pair of surrogates: no UTF-8 has it, "
            "and tokenizers refuse it"
        )
        said.__cause__ = error
        return said
    except Exception:  # noqa: BLE001 - the error says it.
        return error
    return error


class Failed(NamedTuple):
    error: Exception

    @property
    def defect(self) -> Defect:
        return Defect.of(self.error)


def _as_ids(argument: str, value: int | None) -> Ids:
    ids = [] if value is None else [check_int(argument, value, least=0, most=_LARGEST)]
    return np.array(ids, np.int32)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return str(value, "utf-8")
    raise TypeError(f"a text must be a str, or bytes in UTF-8, got {show(value)}")


class _Encoder:
    """Turns texts into tokens; threads share it."""

    name: str

    def parts(self, texts: Sequence[Any]) -> Iterator[list[int]]:
        """Yield the places of the texts that it takes at once."""
        return ([place] for place in range(len(texts)))

    def __call__(self, texts: list[Any]) -> Iterator[Encoded]:
        raise NotImplementedError


class _Copies(threading.local):
    tokenizer: Any = None

    def keep(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer


# The one setting that is not in the text of a tokenizer.
_SPECIAL = "encode_special_tokens"


def _shares_lists() -> bool:
    """Return whether ``tokenizers`` hands lists to threads of its own. It reads its variable by the same rule."""
    return os.environ.get(_THREADS, "true").lower() not in ("", "off", "false", "f", "no", "n", "0")


class _HuggingFace(_Encoder):
    """A tokenizer of ``tokenizers``. Each thread has a copy: changing one while another thread encodes is an error."""

    def __init__(self, tokenizer: Any, *, add_special_tokens: bool) -> None:
        self._add = add_special_tokens
        self._as_text: str | None = None
        self._own: Any = tokenizer
        try:
            self._as_text = tokenizer.to_str()
            self._own = None
        except Exception as error:  # noqa: BLE001 - of its own, plain Exception.
            # It has parts in Python, which cannot be written down. So it is used itself, and must not be changed.
            if tokenizer.padding is not None or tokenizer.truncation is not None:
                remedy = "Call its no_padding() and no_truncation(), or take out what it says there."
                accepted = f"a tokenizer that neither pads nor truncates, if it cannot be copied ({error})"
                refuse(ValueError, "tokenizer", accepted, tokenizer, remedy)
        self._encodes_special = getattr(tokenizer, _SPECIAL, None)
        self._copies = _Copies()
        digest = blake2b((self._as_text or "").encode(), digest_size=6).hexdigest()
        self.name = f"tokenizers {digest}, add_special_tokens={add_special_tokens}"

    def parts(self, texts: Sequence[Any]) -> Iterator[list[int]]:
        sizes = [len(text) if isinstance(text, str | bytes) else 0 for text in texts]
        if _shares_lists():
            yield from ([place] for place, size in enumerate(sizes) if size >= _SHORT)
            if short := [place for place, size in enumerate(sizes) if size < _SHORT]:
                yield short
            return
        begin = size = 0
        for place, each in enumerate(sizes):
            size += each
            if size >= _CHARACTERS:
                yield list(range(begin, place + 1))
                begin, size = place + 1, 0
        if begin < len(sizes):
            yield list(range(begin, len(sizes)))

    def __call__(self, texts: list[Any]) -> Iterator[Encoded]:
        tokenizer = self._tokenizer()
        # Before 0.20, `tokenizers` had only the method that finds out the places of tokens in the text, too.
        encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        for each in encode(list(map(_text_of, texts)), add_special_tokens=self._add):
            ids = each.ids
            yield Encoded(np.fromiter(ids, np.int32, len(ids)))

    def _tokenizer(self) -> Any:
        if self._as_text is None:
            return self._own
        found = self._copies.tokenizer
        if found is None:
            from tokenizers import Tokenizer  # noqa: PLC0415 - an optional dependency.

            found = Tokenizer.from_str(self._as_text)
            found.no_padding()
            found.no_truncation()
            if self._encodes_special is not None:
                setattr(found, _SPECIAL, self._encodes_special)
            self._copies.keep(found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_copies"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._copies = _Copies()


class _Tiktoken(_Encoder):
    """An encoding of ``tiktoken``, which releases the GIL and never changes."""

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding
        self.name = repr(encoding)

    def __call__(self, texts: list[Any]) -> Iterator[Encoded]:
        for text in texts:
            ids = self._encoding.encode_to_numpy(_text_of(text), disallowed_special=())
            yield Encoded(ids.astype(np.int32))


class _Function(_Encoder):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.name = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, texts: list[Any]) -> Iterator[Encoded]:
        for text in texts:
            given = _text_of(text) if isinstance(text, bytes | bytearray | memoryview) else text
            yield to_encoded("tokenizer", self._function(given))


def to_encoded(argument: str, value: Any) -> Encoded:
    """Return ids that a user's function or source gave."""
    mask = more = None
    if isinstance(value, Mapping) or hasattr(type(value), "keys"):
        name = next((name for name in ("input_ids", "tokens") if name in value), None)
        if name is None:
            accepted = "ids, or a mapping with `input_ids` or `tokens`"
            raise ValueError(f"`{argument}` must give {accepted}, got a mapping with {show(list(value))}")
        value, mask, more = value[name], value.get("loss_mask", value.get("assistant_masks")), value
        _check_plain(argument, more)
    refuse_masked(argument, value)
    ids = np.asarray(value)
    if not ids.size and ids.ndim == 1:
        ids = ids.astype(np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        what = f"{ids.dtype} of the shape {ids.shape}"
        raise TypeError(f"`{argument}` must give the ids of a text as ints in one dimension, got {what}")
    if ids.size and not (ids.min() >= 0 and ids.max() <= _LARGEST):
        raise ValueError(f"`{argument}` must give ids from 0 to {_LARGEST}, got {ids.min()} to {ids.max()}")
    tokens = ids.astype(np.int32, copy=False)
    if more is not None and mask is None:
        mask = _to_mask(argument, tokens, more.get("labels"))
    if mask is None:
        return Encoded(tokens)
    refuse_masked("loss_mask", mask)
    flags = np.asarray(mask)
    if not flags.size and flags.ndim == 1:
        # Of an empty list NumPy makes floats.
        flags = flags.astype(bool)
    if flags.shape != tokens.shape or flags.dtype.kind not in "biu":
        what = f"{flags.dtype} of the shape {flags.shape} for {tokens.size} ids"
        raise ValueError(f"`{argument}` must give a `loss_mask` with a bool or an int for each id, got {what}")
    return Encoded(tokens, flags.astype(bool))


# Fields of ``transformers`` that no row of tokens keeps, the number that says nothing there, and what to do.
_NOT_KEPT = {
    "attention_mask": (1, "leave out the ids where it is 0, which are padding and would be trained on"),
    "token_type_ids": (0, "rename it, since rows have no types of tokens"),
}


def _check_plain(argument: str, record: Any) -> None:
    for name, (plain, remedy) in _NOT_KEPT.items():
        values = record.get(name)
        if values is not None and (np.asarray(values) != plain).any():
            raise ValueError(f"`{argument}` must give only {plain} in `{name}`, got {show(values)}: {remedy}")


def _to_mask(argument: str, tokens: NDArray[np.int32], labels: Any) -> NDArray[np.bool_] | None:
    """Return where labels, as models of ``transformers`` take them, say that a token counts; None if all do."""
    refuse_masked("labels", labels)
    given = np.asarray(labels)
    if labels is None or not given.ndim:
        return None  # A number is the class of the text.
    counts = given != _NO_LABEL
    if given.shape != tokens.shape or not np.array_equal(given[counts], tokens[counts]):
        raise ValueError(
            f"`{argument}` must give `labels` that are the ids themselves, or {_NO_LABEL} for ids that do not count in "
            "the loss, got others: rename them, and give a `loss_mask` with a flag for each id if some do not count"
        )
    return None if counts.all() else counts


_ACCEPTED = (
    "a tokenizer of `tokenizers` or its file, a fast one of `transformers`, an encoding of tiktoken, or a function "
    "that turns a text into ids"
)


def _encoder_of(tokenizer: Any, *, add_special_tokens: bool) -> _Encoder:
    if isinstance(tokenizer, str | os.PathLike):
        try:
            from tokenizers import Tokenizer  # noqa: PLC0415 - an optional dependency.
        except ImportError as error:
            raise ImportError("A `tokenizer` that is a file needs `pip install tokenizers`.") from error
        if not Path(tokenizer).is_file():
            remedy = "A tokenizer of the Hub: tokenizers.Tokenizer.from_pretrained(...)."
            refuse(ValueError, "tokenizer", "the path of a tokenizer.json", tokenizer, remedy)
        try:
            tokenizer = Tokenizer.from_file(os.fspath(tokenizer))
        except Exception as error:  # noqa: BLE001 - of its own, plain Exception.
            refuse(ValueError, "tokenizer", "the path of a tokenizer.json", tokenizer, f"It cannot be read: {error}.")
    # A fast tokenizer of `transformers` is a wrapper.
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    package = type(inner).__module__.partition(".")[0]
    if package == "tokenizers" and hasattr(inner, "encode_batch"):
        return _HuggingFace(inner, add_special_tokens=add_special_tokens)
    if package == "tiktoken" and hasattr(inner, "encode_to_numpy"):
        return _Tiktoken(inner)
    if not callable(tokenizer):
        refuse(TypeError, "tokenizer", _ACCEPTED, tokenizer)
    return _Function(tokenizer)

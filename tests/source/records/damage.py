"""What happens to files: bits that flip, ends that are missing, and documents that somebody changed by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

__all__ = ["change_value", "damaged"]

_OTHERS = (b"{}", b"[]", b"null", b"", bytes(100), b'{"shards": []}', b"v1.2 0\n", b"PAR1PAR1")
_VALUES: tuple[Any, ...] = (None, -1, 0, 1, 2**31, 2**63, 2**70, 1.5, "", "x", [], {}, True, [1])
_VALUES += ("../../../etc/passwd", "/etc/passwd", "int", "pkl", "ndarray", "ndarray:uint8:3,-1", "zstd", "gz")


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Return content that is damaged, mostly by a single bit."""
    data = bytearray(content)
    place = rng.randrange(len(data) + 1)
    way = rng.choice(["flip", "flip", "bytes", "cut", "zeros", "insert", "append", "other"])
    if way == "flip" and data:
        data[place % len(data)] ^= 1 << rng.randrange(8)
    elif way == "bytes" and data:
        for _ in range(rng.randrange(1, 30)):
            data[rng.randrange(len(data))] = rng.choice([0, 255, 127, rng.randrange(256)])
    elif way == "cut":
        del data[place:]
    elif way == "zeros":
        data[place : place + 20] = bytes(len(data[place : place + 20]))
    elif way == "insert":
        data[place:place] = rng.randbytes(rng.randrange(1, 9))
    elif way == "append":
        data += rng.randbytes(rng.randrange(1, 600))
    else:
        data = bytearray(rng.choice(_OTHERS))
    return bytes(data)


def change_value(rng: random.Random, content: bytes) -> bytes:
    """Return a JSON document, in which a value is another one or missing."""
    document = json.loads(content)
    node, key = rng.choice(list(_places(document)))
    if isinstance(node, dict) and rng.random() < 0.2:
        del node[key]
    else:
        node[key] = rng.choice(_VALUES)
    return json.dumps(document).encode()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(node if isinstance(node, dict) else range(len(node))):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])

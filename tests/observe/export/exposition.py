"""A strict reader of Prometheus' text format, version 0.0.4, written from its description and not from our writer."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Family", "Sample", "parse"]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'(?P<key>[a-zA-Z_][a-zA-Z0-9_]*)="(?P<value>(?:[^"\\\n]|\\["\\n])*)"(?P<end>,|$)')
_ESCAPES = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    kind: str
    description: str
    samples: list[Sample]


def parse(text: str) -> dict[str, Family]:
    """Return the metrics by name. Anything that the format forbids fails an assertion."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    described = description = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            described, description = line.removeprefix("# HELP ").split(" ", 1)
            assert described not in families, "a second HELP"
            continue
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == described, "TYPE follows the HELP of the same metric"
            assert kind in ("counter", "gauge", "histogram")
            assert name.endswith("_total") == (kind == "counter")
            families[name] = Family(kind, _unescaped(description), [])
            continue
        match = _NAME.match(line)
        assert match is not None, line
        assert line[match.end()] == "{"
        labels, value = line[match.end() + 1 :].rsplit("} ", 1)
        # All samples of a metric stand together, below its TYPE.
        name, family = list(families.items())[-1]
        suffix = match[0].removeprefix(name)
        assert suffix in (("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",))
        sample = Sample(_labels(labels), float(value), suffix)
        assert all((sample.labels, suffix) != (other.labels, other.suffix) for other in family.samples), "twice"
        assert ("le" in sample.labels) == (suffix == "_bucket")
        family.samples.append(sample)
    for family in families.values():
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def _check_histogram(family: Family) -> None:
    series: dict[tuple[object, ...], list[Sample]] = {}
    for sample in family.samples:
        key = tuple((key, value) for key, value in sample.labels.items() if key != "le")
        series.setdefault(key, []).append(sample)
    for *buckets, total, count in series.values():
        assert [each.suffix for each in buckets] == ["_bucket"] * len(buckets)
        assert (total.suffix, count.suffix) == ("_sum", "_count")
        bounds = [float(each.labels["le"]) for each in buckets]
        assert bounds == sorted(set(bounds))
        assert buckets[-1].labels["le"] == "+Inf"
        values = [each.value for each in buckets]
        assert values == sorted(values)
        assert values[-1] == count.value


def _labels(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match is not None, text[at:]
        assert match["key"] not in found
        found[match["key"]] = _unescaped(match["value"])
        at = match.end()
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES[match[0]], text)

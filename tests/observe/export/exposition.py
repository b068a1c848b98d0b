"""Prometheus' text format, read by its own client."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Family", "Sample", "parse"]


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float
    suffix: str


class Family(NamedTuple):
    kind: str
    description: str
    samples: list[Sample]


def parse(text: str) -> dict[str, Family]:
    """Return the metrics by the names that stand in the text."""
    families: dict[str, Family] = {}
    for read in text_string_to_metric_families(text):
        name = read.name + ("_total" if read.type == "counter" else "")
        assert name not in families
        samples = [Sample(each.labels, each.value, each.name.removeprefix(name)) for each in read.samples]
        assert not any(sample in samples[:index] for index, sample in enumerate(samples))
        families[name] = Family(read.type, read.documentation, samples)
    return families

"""The metrics of pipelines in Prometheus' text format: as a str, a file for the node exporter, and a web server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl._check import check_int, check_path, check_seconds, check_str
from spdl._files import replaced
from spdl._not_here import require
from spdl.observe._export.observed import METRICS, Observables, Ticker, UntilClosed, check_observed, read

if TYPE_CHECKING:
    from spdl.pipeline import PipelineStatistics


_UNITS = {"s": "seconds", "By": "bytes"}
# As `open` would make it, but for what the process masks: the node exporter is another user.
_READABLE_BY_ALL = 0o644
_MOST_PORTS = 65535


class PrometheusPage:
    """The counters of pipelines, as a collector of the package prometheus_client, which `purpose` needs."""

    def __init__(self, pipelines: Observables, purpose: str) -> None:
        self._observed = check_observed(pipelines)
        self.client = require("prometheus_client", purpose, extra="prometheus")
        self._core = require("prometheus_client.core", purpose, extra="prometheus")
        self.registry = self.client.CollectorRegistry()
        self.registry.register(self)

    def describe(self) -> Iterator[Any]:
        return self._families({})

    def collect(self) -> Iterator[Any]:
        return self._families(read(self._observed))

    def text(self) -> str:
        return str(self.client.generate_latest(self.registry).decode())

    def _families(self, pipelines: dict[str, PipelineStatistics]) -> Iterator[Any]:
        kinds = {"counter": self._core.CounterMetricFamily, "gauge": self._core.GaugeMetricFamily}
        for metric in METRICS:
            its = metric.shown
            name, unit = its.metric.replace(".", "_"), _UNITS.get(its.unit, "")
            family = kinds[metric.kind](name, its.description, labels=("pipeline", *metric.labels), unit=unit)
            for pipeline, statistics in pipelines.items():
                for labels, value in metric.read(statistics):
                    family.add_metric(_written(pipeline, *labels), value)
            yield family
        durations = self._core.HistogramMetricFamily(
            "spdl_stage_duration",
            "How long tasks took that did not raise.",
            labels=("pipeline", "stage", "stage_index"),
            unit="seconds",
        )
        for pipeline, statistics in pipelines.items():
            for place, stage in enumerate(statistics.stages):
                if stage.durations:
                    *finite, (_, everything) = stage.durations
                    buckets = [*((str(bound), count) for bound, count in finite), ("+Inf", everything)]
                    durations.add_metric(_written(pipeline, stage.name, place), buckets, stage.task_seconds)
        yield durations


def _written(*labels: str | int) -> list[str]:
    # A name given by the user may hold half a character, which cannot be written as UTF-8.
    return [str(label).encode("utf-8", "replace").decode("utf-8") for label in labels]


def prometheus_text(pipelines: Observables) -> str:
    """Return what pipelines have done so far in the text format that Prometheus scrapes.

    It takes no lock and slows nothing down. Counters are totals since a pipeline's start. Each value has the labels
    ``pipeline``, ``stage`` and ``stage_index``: stages may have the same name, and the index tells them apart.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such.

    Returns:
        Text of version 0.0.4 of the format, in which each metric has its ``HELP`` and ``TYPE`` once.

    Raises:
        ModuleNotFoundError: If prometheus_client is not installed: ``pip install 'spdl-turbo[prometheus]'``.
        TypeError: If ``pipelines`` is anything else.

    Example:
        >>> from spdl.observe import prometheus_text
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> print(prometheus_text({"train": pipeline}))  # doctest: +ELLIPSIS
        # HELP spdl_stage_items_total Items whose op ended without raising; at the sink, items that were read.
        # TYPE spdl_stage_items_total counter
        spdl_stage_items_total{pipeline="train",stage="src",stage_index="0"} 3.0
        spdl_stage_items_total{pipeline="train",stage="str",stage_index="1"} 3.0
        ...
    """
    return PrometheusPage(pipelines, "prometheus_text").text()


class PrometheusFile(UntilClosed):
    """A file with the text of `prometheus_text`, which a daemon thread writes again at intervals.

    It is meant for the textfile collector of Prometheus' node exporter. Each time a new file takes the place of the old
    one, so a reader never sees a part of it. It is written from the construction until `close` or the end of a ``with``
    block, which writes it once more. The pipelines are kept alive until then. The file stays.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such. The mapping is
            read at each writing: pipelines may be added and taken out.
        path: The path of the file. The node exporter reads names that end in ``.prom``.
        interval: Seconds from one writing to the next.

    Raises:
        ModuleNotFoundError: If prometheus_client is not installed: ``pip install 'spdl-turbo[prometheus]'``.
        OSError: If the file cannot be written, at the construction and at the end. In between it is logged.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from spdl.observe import PrometheusFile
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build(num_threads=1)
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "spdl.prom")
        ...     with PrometheusFile(pipeline, path), pipeline.auto_stop():
        ...         items = list(pipeline)
        ...     'spdl_stage_items_total{pipeline="pipeline",stage="sink",stage_index="1"} 3.0' in path.read_text()
        True
    """

    def __init__(self, pipelines: Observables, path: str | os.PathLike[str], *, interval: float = 15.0) -> None:
        self._page = PrometheusPage(pipelines, "PrometheusFile")
        check_path("path", path)
        self._path = Path(os.fsdecode(path))
        seconds = check_seconds("interval", interval, above_zero=True)
        self.write()
        self._ticker = Ticker(self.write, seconds, "spdl_prometheus_file")

    def write(self) -> None:
        """Write the file now.

        Raises:
            OSError: If it cannot be written. An old file stays unchanged.
        """
        text = self._page.text()
        # The package's own `write_to_textfile` names no file in the error of a full disk, and replaces a link.
        with replaced(self._path) as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), _READABLE_BY_ALL)

    def close(self) -> None:
        """Write the file once more, and end. Further calls do nothing.

        Raises:
            OSError: If it cannot be written.
        """
        if self._ticker.close():
            self.write()


class PrometheusServer(UntilClosed):
    """A web server, in its own daemon threads, whose page ``/metrics`` has the text of `prometheus_text`.

    It serves from its construction until `close`, or the end of a ``with`` block, and keeps the pipelines alive until
    then. Forked children do not serve. There is no password: everyone with the address sees the names of the stages and
    how fast they are, and nothing else. It is the server of the package prometheus_client.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such. The mapping is
            read at each request: pipelines may be added and taken out.
        port: The port; with 0 the system chooses one, and `url` has it.
        host: The address to listen at. By default only this machine reaches it; ``""`` lets every machine.

    Raises:
        ModuleNotFoundError: If prometheus_client is not installed: ``pip install 'spdl-turbo[prometheus]'``.
        OSError: If the address is in use, or does not belong to this machine.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> import urllib.request
        >>> from spdl.observe import PrometheusServer
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build(num_threads=1)
        >>> with PrometheusServer(pipeline) as server, pipeline.auto_stop():
        ...     items = list(pipeline)
        ...     page = urllib.request.urlopen(server.url).read().decode()
        >>> 'spdl_stage_items_total{pipeline="pipeline",stage="sink",stage_index="1"} 3.0' in page
        True
    """

    def __init__(self, pipelines: Observables, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self._page = PrometheusPage(pipelines, "PrometheusServer")
        port = check_int("port", port, least=0, most=_MOST_PORTS)
        self._host = check_str("host", host)
        try:
            # To the package, None is what "" is here.
            self._server, self._thread = self._page.client.start_http_server(port, host or None, self._page.registry)
        except OSError as error:
            # Python's own message does not tell the address.
            error.add_note(f"PrometheusServer could not listen at {host or '*'}:{port}; port=0 finds a free one.")
            raise
        self._process = os.getpid()

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return int(self._server.server_port)

    @property
    def url(self) -> str:
        """The address of the page, for a program on this machine."""
        host = self._host or "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    def text(self) -> str:
        """Return what the page shows now."""
        return self._page.text()

    def close(self) -> None:
        """Stop listening. A request that is being answered is answered. Further calls do nothing."""
        # A forked child has no thread that would answer.
        if os.getpid() == self._process:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

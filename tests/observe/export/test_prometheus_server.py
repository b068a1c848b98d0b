import gzip
import http.client
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from tests.observe.export.exposition import parse
from tests.observe.export.observed import Told, stage, told

from spdl.observe import PrometheusServer
from spdl.pipeline import PipelineBuilder, PipelineStatistics


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - it is a server of the test's own.
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return str(answer.read().decode())


def items(page: str) -> dict[str, float]:
    return {sample.labels["stage"]: sample.value for sample in parse(page)["spdl_stage_items_total"].samples}


def test_it_tells_of_a_pipeline_while_that_runs() -> None:
    passed, goes_on = threading.Event(), threading.Event()

    def wait(item: int) -> int:
        if item == 5:
            passed.set()
            assert goes_on.wait(30)
        return item

    pipeline = PipelineBuilder().add_source(range(8)).pipe(wait).add_sink(10).build(num_threads=1)
    with PrometheusServer(pipeline) as server, pipeline.auto_stop():
        assert passed.wait(30)
        assert items(fetch(server.url))["wait"] == 5
        goes_on.set()
        assert list(pipeline) == list(range(8))
        assert items(fetch(server.url))["wait"] == 8


def test_pipelines_come_and_go() -> None:
    pipelines: dict[str, Told] = {}
    with PrometheusServer(pipelines) as server:
        assert "pipeline=" not in fetch(server.url)
        pipelines["late"] = told(stage("src"), stage("sink"))
        assert 'pipeline="late"' in fetch(server.url)


def test_requests_at_the_same_time_are_answered() -> None:
    pages: list[str] = []
    with PrometheusServer(told(stage("src"), stage("sink"))) as server:
        # One that asks for nothing does not keep the others waiting.
        silent = http.client.HTTPConnection("127.0.0.1", server.port)
        silent.connect()
        threads = [threading.Thread(target=lambda: pages.append(fetch(server.url))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        silent.close()
    assert len(pages) == 8


def test_it_serves_what_prometheus_asks_for() -> None:
    request = urllib.request.Request
    with PrometheusServer(told(stage("src", num_completed=3), stage("sink"))) as server:
        asked = request(server.url, headers={"Accept": "application/openmetrics-text", "Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            page = gzip.decompress(answer.read()).decode()
        only = fetch(f"{server.url}?name[]=spdl_stage_items_total")
    families = openmetrics.text_string_to_metric_families(page)
    assert [sample.value for family in families for sample in family.samples if family.name == "spdl_stage_items"] == [
        3,
        0,
    ]
    assert list(parse(only)) == ["spdl_stage_items_total"]


def test_it_listens_at_addresses_of_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("needs IPv6")
    with PrometheusServer(told(stage("sink")), host="::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert "spdl_stage_items_total" in fetch(server.url)


class Broken:
    def statistics(self) -> PipelineStatistics:
        raise RuntimeError("it is <broken>")


def test_who_scrapes_is_told_of_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    with PrometheusServer(Broken()) as server:
        with pytest.raises(urllib.error.HTTPError, match="500") as caught:
            fetch(server.url)
        caught.value.close()
    assert "RuntimeError: it is <broken>" in capfd.readouterr().err


def test_it_ends() -> None:
    server = PrometheusServer(told(stage("sink")))
    url = server.url
    server.close()
    server.close()
    with pytest.raises(urllib.error.URLError):
        fetch(url)


def test_an_address_in_use_is_named() -> None:
    with PrometheusServer(told(stage("sink"))) as server, pytest.raises(OSError, match="in use") as caught:
        PrometheusServer(told(stage("sink")), port=server.port)
    assert any(f"127.0.0.1:{server.port}" in note for note in caught.value.__notes__)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_close_its_copy() -> None:
    with PrometheusServer(told(stage("src"), stage("sink"))) as server:
        child = os.fork()
        if not child:
            server.close()
            os._exit(7)
        deadline = time.monotonic() + 60
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        if ended[0] == 0:
            os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(ended[1]) == 7
        assert fetch(server.url)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="`port` must be an int from 0 to 65535"):
        PrometheusServer(told(stage("sink")), port=70000)
    with pytest.raises(TypeError, match="`host` must be a str"):
        PrometheusServer(told(stage("sink")), host=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`pipelines`"):
        PrometheusServer(3)  # type: ignore[arg-type]

"""Moto's S3 in a process of its own, with the objects that a test wants."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

needs_s3 = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "obstore", "s3fs")),
    reason="needs moto[server], obstore and s3fs: pip install --group store",
)

_PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def running_s3(bucket: str, objects: Mapping[str, bytes]) -> Iterator[str]:
    """Run the server, with a bucket and objects in it; yield its URL."""
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM]
    environment = {**os.environ, "MOTO_DOCKER": "no"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            put(f"{url}/{bucket}", b"")
            for path, content in objects.items():
                put(f"{url}/{bucket}/{urllib.request.quote(path)}", content)  # type: ignore[attr-defined]
            yield url
        finally:
            process.kill()


def put(url: str, content: bytes) -> None:
    request = urllib.request.Request(url, data=content, method="PUT")  # noqa: S310 - our own server.
    request.add_header("Content-Type", "application/octet-stream")
    urllib.request.urlopen(request).close()  # noqa: S310


def obstore_config(url: str) -> dict[str, object]:
    return {
        "endpoint": url,
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "secret",
        "client_options": {"allow_http": True},
    }


def fsspec_options(url: str) -> dict[str, object]:
    return {"key": "key", "secret": "secret", "client_kwargs": {"endpoint_url": url, "region_name": "us-east-1"}}


def aws_environment(url: str) -> dict[str, str]:
    """Return the variables by which a program of its own finds the server."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }

"""Azurite, Microsoft's own emulator of Azure's blobs, in a process of its own, with the objects that a test wants."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import importlib.util
import re
import shutil
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROGRAM = shutil.which("azurite-blob")
# The account that every Azurite has, as its documentation tells.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

needs_azure = pytest.mark.skipif(
    _PROGRAM is None or importlib.util.find_spec("obstore") is None,
    reason="needs obstore and azurite-blob: npm install --global azurite",
)


@contextlib.contextmanager
def running_azure(container: str, objects: Mapping[str, bytes]) -> Iterator[str]:
    """Run the server, with a container and objects in it; yield its URL."""
    assert _PROGRAM is not None
    command = [_PROGRAM, "--inMemoryPersistence", "--blobPort", "0", "--skipApiVersionCheck", "--disableTelemetry"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if found := re.search(r"successfully listens on (http://\S+)", line):
                    break
            else:
                raise AssertionError("".join(said))
            url = f"{found[1]}/{_ACCOUNT}"
            _put(url, container, b"", {}, "restype:container")
            for path, content in objects.items():
                quoted = urllib.request.quote(path)  # type: ignore[attr-defined]
                _put(url, f"{container}/{quoted}", content, {"x-ms-blob-type": "BlockBlob"})
            yield url
        finally:
            process.kill()


def azure_config(url: str) -> dict[str, object]:
    return {
        "account_name": _ACCOUNT,
        "account_key": _KEY,
        "endpoint": url,
        # Without a pool no connection outlives its request, and none is taken for a leak.
        "client_options": {"allow_http": True, "pool_max_idle_per_host": "0"},
    }


def _put(url: str, path: str, content: bytes, headers: dict[str, str], query: str = "") -> None:
    """Send a request that is signed as Azure's documentation of "Shared Key" says."""
    kind = "application/octet-stream"
    sent = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06", **headers}
    lines = [f"{name}:{value}" for name, value in sorted(sent.items())]
    resource = [f"/{_ACCOUNT}/{_ACCOUNT}/{path}", *([query] if query else [])]
    standard = ["PUT", "", "", str(len(content) or ""), "", kind, *[""] * 6]
    signed = hmac.new(base64.b64decode(_KEY), "\n".join([*standard, *lines, *resource]).encode(), hashlib.sha256)
    sent |= {
        "Content-Type": kind,
        "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(signed.digest()).decode()}",
    }
    target = f"{url}/{path}" + (f"?{query.replace(':', '=')}" if query else "")
    request = urllib.request.Request(target, data=content, method="PUT", headers=sent)  # noqa: S310 - our own server.
    urllib.request.urlopen(request).close()  # noqa: S310

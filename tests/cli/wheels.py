"""Wheels made on the spot, so that tests install packages without a network."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


class Wheelhouse:
    """A folder of wheels that pip uses as an index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = ()) -> None:
        """Add a wheel that holds these files."""
        stem = f"{name.replace('-', '_')}-{version}"
        metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
        metadata += [f"Requires-Dist: {requirement}\n" for requirement in requires]
        contents = {
            **files,
            f"{stem}.dist-info/METADATA": "".join(metadata).encode(),
            f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},,\n" for path in [*contents, f"{stem}.dist-info/RECORD"])
        with zipfile.ZipFile(self.folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            for path, content in contents.items():
                wheel.writestr(path, content)
            wheel.writestr(f"{stem}.dist-info/RECORD", record)

"""A process that reads records is killed, and another one goes on: each record is read once."""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.io.tars import make_tar
from tests.source.packed_files import write_mds, write_packed

COUNTS = (11, 3, 9)


def write_all(folder: Path) -> None:
    """Write the same numbers in every format."""
    chunks = []
    (folder / "litdata").mkdir()
    arrow = importlib.util.find_spec("pyarrow")
    for part, count in enumerate(COUNTS):
        numbers = range(sum(COUNTS[:part]), sum(COUNTS[:part]) + count)
        (folder / f"{part}.tar").write_bytes(make_tar([(f"{number}.txt", b"%d" % number) for number in numbers]))
        (folder / f"{part}.jsonl").write_text("".join(json.dumps({"n": number}) + "\n" for number in numbers))
        for number in numbers:
            (folder / f"{number:03}.number").write_text(str(number))
        chunks.append({"filename": f"{part}.bin", "chunk_size": count})
        write_packed(folder / "litdata" / f"{part}.bin", [struct.pack("<Iq", 8, number) for number in numbers])
        if arrow:
            pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
            pq.write_table(pa.table({"n": list(numbers)}), folder / f"{part}.parquet", row_group_size=4)
    everything = iter(range(sum(COUNTS)))
    shards = [[struct.pack("<q", next(everything)) for _ in range(count)] for count in COUNTS]
    write_mds(folder / "mds", {"n": ("int", 8)}, shards)
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    tree = [1, {"type": "builtins.dict", "context": '["n"]', "children_spec": [leaf]}]
    config = {"data_format": ["int"], "data_spec": json.dumps(tree), "compression": None}
    (folder / "litdata" / "index.json").write_text(json.dumps({"config": config, "chunks": chunks}))


def test_each_record_is_read_once(tmp_path: Path) -> None:
    write_all(tmp_path)
    program = [sys.executable, str(Path(__file__).with_name("killed.py")), str(tmp_path)]
    for steps in (2, 1):
        assert subprocess.run([*program, str(steps)], check=False).returncode == -signal.SIGKILL
    subprocess.run([*program, "0"], check=True)
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.log")}
    assert found.keys() >= {"tar", "files", "json lines", "MDS", "LitData"}
    for name, log in found.items():
        assert sorted(log["read"]) == list(range(log["size"])), name
        # They were mixed, and the first two processes did not read all.
        assert log["read"] != sorted(log["read"]), name

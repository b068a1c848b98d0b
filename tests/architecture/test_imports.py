"""Imports have one direction: what a folder may import is written here, and nothing imports in a circle."""

from __future__ import annotations

import ast
import importlib
from functools import cache

import pytest
from tests.architecture.import_graph import Import, find_circles, imports, modules

# What the modules of a folder may import besides each other and what stands
# below everything. A private module of the pipeline is a folder of one.
_PIPELINE = {
    "_world": set[str](),
    "_declare": set[str](),
    "_report": {"_declare"},
    "_state": {"_declare"},
    "_engine": {"_declare", "_report", "_state"},
    "_stages": {"_declare", "_report", "_state", "_engine"},
    "_graph": {"_declare", "_report", "_engine", "_stages"},
    "_iterators": {"_state", "_engine"},
    "_pipeline": {"_declare", "_report", "_state", "_engine", "_stages", "_iterators"},
    "_for_loaders": {"_report", "_state", "_engine", "_iterators", "_pipeline"},
    "_build": {"_declare", "_report", "_stages", "_graph", "_pipeline"},
    "_builder": {"_declare", "_graph", "_pipeline", "_build"},
    "_measure": {"_declare", "_report", "_engine", "_graph", "_pipeline"},
    "_profile": {"_declare", "_report", "_engine", "_iterators", "_pipeline", "_measure"},
    "_elsewhere": {
        "_declare",
        "_report",
        "_state",
        "_engine",
        "_stages",
        "_graph",
        "_pipeline",
        "_build",
        "_builder",
    },
}
# The clocks, locks and threads, which every folder of the pipeline may import.
_WORLD = "_world"
# Folders that a simulated world runs (tests/simulation), so that they take clocks, locks and threads from `_world`.
_SIMULATED = ["_report", "_state", "_engine", "_stages", "_graph", "_iterators", "_pipeline"]
# What has threads and times of the system's, wherever it runs.
_REAL = {
    "spdl.pipeline._report.recorder",
    "spdl.pipeline._report.threads",
    "spdl.pipeline._stages.background",
    "spdl.pipeline._stages.pools",
    "spdl.pipeline._stages.process_work",
    "spdl.pipeline._stages.tracing",
}
_IO = {
    "_native": {"_common"},
    "_common": {"_native"},
    "_array": {"_common", "_native"},
    "_archive": {"_array", "_common", "_native"},
    "_device": {"_common", "_native"},
    "_image": {"_common", "_device", "_native"},
    "_av": {"_common", "_device", "_image", "_native"},
    "_text": {"_common", "_native"},
    "_shared": {"_archive", "_array", "_av", "_common", "_device", "_image", "_text"},
}
_READ = {"_store", "_identity", "_blocks"}
_ASK = {*_READ, "_server_limits", "_requests", "_remote"}
_STORE = {
    "_store": set[str](),
    "_identity": set[str](),
    "_blocks": set[str](),
    "_local": _READ,
    "_fsspec": _READ,
    "_server_limits": set[str](),
    "_requests": {"_store", "_server_limits"},
    "_remote": _ASK,
    "_http": _ASK,
    "_obstore": _ASK,
    "_urls": {"_store", "_local", "_fsspec", "_http", "_obstore"},
    "_object_file": {"_store"},
    "_disk_cache": {"_blocks"},
    "_cached_store": {"_store", "_identity", "_disk_cache"},
    "_read_ahead": {"_store"},
}
_RAY = {
    "_leases": set[str](),
    "_actor": {"_leases"},
    "_crew": {"_actor", "_leases"},
    "_data": {"_crew"},
    "_epoch_run": {"_actor", "_crew", "_leases"},
    "_loader": {"_actor", "_crew", "_epoch_run", "_leases"},
}
_PACKAGES = {
    "pipeline": set[str](),
    "io": {"store"},
    "source": {"io", "store"},
    "store": set[str](),
    "dataloader": {"io", "pipeline", "source", "tune"},
    "testing": {"source"},
    "observe": {"pipeline"},
    "tune": {"observe", "pipeline"},
    "ray": {"pipeline"},
    "cli": {"io", "observe", "pipeline"},
    "_command": {"cli"},
}
_BELOW_ALL = {
    "_check",
    "_cores",
    "_counted",
    "_files",
    "_guard",
    "_locate",
    "_not_here",
    "_processes",
    "_program",
    "_random_key",
    "_ranges",
    "_sealed",
    "_signatures",
    "_trace_file",
}

# Imported where it is asked for, by what stands below it.
_UPWARDS = {
    # In a wheel: `python -m spdl` runs the command.
    ("spdl.__main__", "spdl.cli"),
    # An iterator names the type of the pipeline that it reads.
    ("spdl.pipeline._iterators", "spdl.pipeline._pipeline"),
    # A graph may have regions, whose workers run graphs themselves.
    ("spdl.pipeline._graph", "spdl.pipeline._elsewhere.regions"),
    # `build_pipeline` profiles instead of building where an environment variable says so.
    ("spdl.pipeline._build", "spdl.pipeline._profile"),
    # It records a trace where `spdl record` has set one.
    ("spdl.pipeline._build", "spdl.observe._trace.folder"),
    # `spdl record PID` asks a process for a trace while it runs.
    ("spdl.pipeline._build", "spdl.observe._trace.answer"),
    # A pipeline's statistics have the verdict on it.
    ("spdl.pipeline._engine.describe", "spdl.observe._verdict.diagnose"),
    # A pipeline writes a report of itself.
    ("spdl.pipeline._pipeline", "spdl.observe._report"),
    # It makes a tuner where the caller asks for one, and the pipeline holds it.
    ("spdl.pipeline._build", "spdl.tune._tuner"),
}
_TUNED = ("spdl.pipeline._pipeline",)

# A declaration names what the defaults of a process may hold.
_NAMED_BY_DECLARATIONS = {"_report"}


@cache
def edges() -> list[Import]:
    """Return who imports whom. It takes two seconds, so it is not asked while tests are collected."""
    return [edge for edge in imports() if edge.imported != "spdl"]


def _folder(module: str, package: str) -> str | None:
    """Return the private folder of a package that a module lies in; None for what lies beside the folders."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["spdl", package] and len(parts) > 2 and parts[2].startswith("_") else None


def _upward(edge: Import, package: str, allowed: dict[str, set[str]]) -> bool:
    importer, imported = _folder(edge.importer, package), _folder(edge.imported, package)
    if importer is None or importer == imported or (edge.importer, edge.imported) in _UPWARDS:
        return False
    if importer == "_declare" and edge.typing_only and imported in _NAMED_BY_DECLARATIONS:
        return False
    inside = edge.imported.startswith(f"spdl.{package}")
    return inside and imported not in {_WORLD, *allowed[importer]}


@pytest.mark.parametrize(
    ("package", "allowed"), [("pipeline", _PIPELINE), ("io", _IO), ("store", _STORE), ("ray", _RAY)]
)
def test_folders_import_what_stands_below_them(package: str, allowed: dict[str, set[str]]) -> None:
    folders = {folder for module in modules() if (folder := _folder(module, package))}
    assert folders == allowed.keys(), "the table above names all folders, and no others"
    upward = [edge for edge in edges() if _upward(edge, package, allowed)]
    assert not upward, "\n".join(map(str, upward))


def test_clocks_locks_and_threads_come_from_one_module() -> None:
    found = []
    for module, path in modules().items():
        if _folder(module, "pipeline") not in _SIMULATED or module in _REAL:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module or "")
            found += [f"{module}:{node.lineno} imports {name}" for name in names if name in {"threading", "time"}]  # type: ignore[attr-defined]
    assert not found, "\n".join(found)


def test_packages_import_what_stands_below_them() -> None:
    upward = []
    for edge in edges():
        importer, imported = edge.importer.split(".")[1:2], edge.imported.split(".")[1]
        if (edge.importer, edge.imported) in _UPWARDS or (edge.typing_only and edge.importer in _TUNED):
            continue
        if importer and imported not in {importer[0], *_BELOW_ALL, *_PACKAGES.get(importer[0], ())}:
            upward.append(edge)
    assert not upward, "\n".join(map(str, upward))


# The one module of a package whose names other packages may use, besides the public ones.
_FACES = {"io": "spdl.io._shared", "source": "spdl.source._shared", "store": "spdl.store._store"}


def test_packages_use_the_private_names_of_others_from_one_module() -> None:
    around = []
    for edge in edges():
        package = edge.imported.split(".")[1]
        inside = edge.importer.split(".")[1:2] == [package]
        if package in _FACES and "._" in edge.imported and edge.imported != _FACES[package] and not inside:
            around.append(edge)
    assert not around, "\n".join(map(str, around))


def test_what_a_package_shares_is_used_by_others() -> None:
    for package, face in _FACES.items():
        names = set(getattr(importlib.import_module(face), "__all__", ()))
        used = {
            alias.name
            for module, path in modules().items()
            if not module.startswith(f"spdl.{package}.")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module == face
            for alias in node.names
        }
        assert names <= used, f"{face}: nobody uses {sorted(names - used)}"


def test_no_module_imports_in_a_circle() -> None:
    assert find_circles([edge for edge in edges() if not edge.typing_only]) == []


def test_with_types_circles_are_small() -> None:
    assert [circle for circle in find_circles(edges()) if len(circle) > 5] == []


def test_circles_are_found() -> None:
    def edge(importer: str, imported: str) -> Import:
        return Import(importer, imported, 1, typing_only=False)

    assert find_circles([edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("d", "a")]) == [["a", "b", "c"]]
    assert find_circles([edge("a", "b"), edge("b", "c")]) == []


def test_the_declaration_and_the_engine_are_found() -> None:
    found = {(edge.importer, edge.imported, edge.typing_only) for edge in edges()}
    assert ("spdl.pipeline._engine.node", "spdl.pipeline._engine.engine", True) in found
    assert ("spdl.pipeline._graph", "spdl.pipeline._engine.engine", False) in found
    # Inside a function.
    assert ("spdl.pipeline._build", "spdl.pipeline._graph", False) in found

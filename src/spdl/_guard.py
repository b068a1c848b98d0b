"""A check that fails if the reference's distributions, which install a package of the same name, are installed too.

``spdl_core`` and ``spdl_io`` write into the same folder as this distribution, and pip lets the later one overwrite the
other. Importing this module looks for them and raises ImportError if they are there. The package imports it first. So
do the modules that remain when the package's own ``__init__`` has been overwritten.

The search lists one folder and imports only modules that Python imports at its start, so ``import spdl`` stays cheap.
"""

import os
import sys

_OURS = "spdl_turbo-"
_THEIRS = ("spdl_core-", "spdl_io-")
_SUFFIX = ".dist-info"


def _list_distributions(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder or os.curdir) if name.startswith("spdl") and name.endswith(_SUFFIX)]
    except OSError:
        # A missing folder or an archive: pip installs into neither.
        return []


def _find_installation() -> tuple[str, list[str]]:
    """Return the folder that this distribution was installed into, and the distributions named spdl-something in it.

    In an editable installation the modules are elsewhere: the folder is the first of ``sys.path`` with our metadata.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (home, *sys.path):
        names = _list_distributions(folder)
        if any(name.startswith(_OURS) for name in names):
            return folder, names
    return home, _list_distributions(home)


def _find_origin(metadata: str) -> list[str]:
    """Return the arguments of ``pip install`` that reinstall this distribution, from pip's record (PEP 610)."""
    import json  # noqa: PLC0415 - only on the way to an error.
    from urllib.request import url2pathname  # noqa: PLC0415

    version = os.path.basename(metadata).removeprefix(_OURS).removesuffix(_SUFFIX)
    released = [f"spdl-turbo=={version}"]
    try:
        with open(os.path.join(metadata, "direct_url.json"), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return released
    url: str = record["url"]
    if "vcs_info" in record:
        subdirectory = f"#subdirectory={record['subdirectory']}" if "subdirectory" in record else ""
        return [f"spdl-turbo @ {record['vcs_info']['vcs']}+{url}@{record['vcs_info']['commit_id']}{subdirectory}"]
    if not url.startswith("file:"):
        return [f"spdl-turbo @ {url}"]
    path = url2pathname(url.removeprefix("file://"))
    if not os.path.exists(path):
        return released
    return ["--editable", path] if record.get("dir_info", {}).get("editable") else [path]


def _pip(*arguments: str) -> str:
    import shlex  # noqa: PLC0415 - only on the way to an error.

    return shlex.join([sys.executable or "python3", "-m", "pip", *arguments])


def _find_ours(names: list[str]) -> str | None:
    return next((name for name in names if name.startswith(_OURS)), None)


def compose_reinstall(*, after: str = "") -> str:
    """Return lines with the command that reinstalls this distribution from its origin.

    Args:
        after: Text to put before the command on its line.
    """
    folder, names = _find_installation()
    ours = _find_ours(names)
    origin = _find_origin(os.path.join(folder, ours)) if ours else ["spdl-turbo"]
    # pip does not record the folder in which it found a wheel.
    by_name = origin[0].startswith("spdl-turbo") and "@" not in origin[0]
    note = "Add --find-links and the folder if it came from a folder of wheels.\n" if by_name else ""
    return f"\n\n    {after}{_pip('install', '--force-reinstall', '--no-deps', *origin)}\n{note}"


def _compose_remedy() -> str:
    uninstall = _pip("uninstall", "--yes", "spdl", "spdl-core", "spdl-io")
    return f"Remove them and restore spdl-turbo with this command:{compose_reinstall(after=f'{uninstall} && ')}"


def _check() -> None:
    folder, names = _find_installation()
    theirs = sorted(name.removesuffix(_SUFFIX).replace("-", " ") for name in names if name.startswith(_THEIRS))
    if theirs:
        raise ImportError(
            f"{', '.join(theirs)} and spdl-turbo are installed in the same folder, {folder}, and share the package "
            f"name 'spdl': whichever came last has overwritten modules of the other. {_compose_remedy()}"
        )
    if getattr(sys.modules["spdl"], "__file__", None) is None:
        raise ImportError(
            f"parts of spdl-turbo are missing from {os.path.join(folder, 'spdl')}, as after removing the distributions "
            f"spdl_core and spdl_io, which own files of the same names. {_compose_remedy()}"
        )


_check()

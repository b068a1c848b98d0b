"""Scalable and performant data loading: a threaded pipeline engine and GIL-free media and array I/O.

The packages are imported by name: `spdl.pipeline` runs a graph of stages on threads, `spdl.io` reads and decodes media.
Importing this one, or ``spdl.pipeline``, loads neither numpy nor the native part.
"""

from spdl import _guard  # noqa: F401 - raises if another distribution has overwritten parts of this one.

__version__: str

# ``python -m spdl`` runs a module named __main__, which has its own folder: see _command/overwritten.py.
__path__.insert(0, f"{__file__.rpartition('/')[0]}/_command")


def __getattr__(name: str) -> str:
    if name != "__version__":
        from spdl._not_here import missing  # noqa: PLC0415

        raise missing(__name__, name)
    # importlib.metadata takes longer to import than the rest of this package.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("spdl-turbo")
    except PackageNotFoundError:
        return "unknown"


def __dir__() -> list[str]:
    return sorted([*globals(), "__version__"])

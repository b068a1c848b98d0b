"""Files of any library, opened once by each thread that reads them."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from spdl._check import positive, refuse

T = TypeVar("T")


class FilesPerThread(Generic[T]):
    """Opens files for functions that several threads run, such as ``ArrayLoader(load=...)``: each thread has its own.

    A thread opens a file when it first asks for it, and gets the same object from then on. It keeps the `most` that it
    used last, and closes others, as all of its files when it ends: a loader's threads end with its loop. Files are
    closed by their ``close()``, if they have one. Forked and unpickled copies open their own.

    Args:
        open: Opens a file by its path or any other key, such as ``h5py.File``. It must allow several open files of one
            path.
        most: How many files stay open in each thread.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> import io
        >>> files = FilesPerThread(io.BytesIO)
        >>> files(b"abc").read(2), files(b"abc").read(2), files(b"abc") is files(b"abc")
        (b'ab', b'c', True)
        >>> files.close()
    """

    def __init__(self, open: Callable[[Any], T], *, most: int = 16) -> None:  # noqa: A002 - what it does.
        if not callable(open):
            refuse(TypeError, "open", "a function that opens a file", open)
        self._open = open
        self._most = positive("most", most)
        self._own: _OfThread[T] = _OfThread()
        self._threads: dict[int, weakref.ref[_Opened[T]]] = {}

    def __call__(self, path: Hashable, /) -> T:
        """Return the calling thread's open file. It stays open until the thread has asked for `most` others.

        Raises:
            Exception: Those of `open`.
        """
        own = self._own.opened
        if own is None or own.process != os.getpid():
            own = self._own.renew()
            self._threads[threading.get_ident()] = weakref.ref(own)
        files = own.files
        if path not in files:
            files[path] = self._open(path)
        files.move_to_end(path)
        own.close_but(self._most)
        return files[path]

    def close(self) -> None:
        """Close the files of all threads, none of which may be using them. Those asked for later are opened again.

        Raises:
            Exception: Those of the files' ``close()``. All of them are called.
        """
        with ExitStack() as closing:
            for found in list(self._threads.values()):
                if (own := found()) is not None:
                    closing.callback(own.close_but, 0)

    def __reduce__(self) -> Any:
        return functools.partial(type(self), most=self._most), (self._open,)


class _OfThread(threading.local, Generic[T]):
    opened: _Opened[T] | None = None

    def renew(self) -> _Opened[T]:
        self.opened = _Opened()
        return self.opened


class _Opened(Generic[T]):
    """The open files of a thread, which are closed with it."""

    def __init__(self) -> None:
        self.files: OrderedDict[Hashable, T] = OrderedDict()
        self.process = os.getpid()

    def close_but(self, most: int) -> None:
        """Close files but the last ones, unless a fork has copied them."""
        # One that cannot be closed does not keep others open.
        with ExitStack() as closing:
            while len(self.files) > most:
                _, file = self.files.popitem(last=False)
                close = getattr(file, "close", None)
                if close is not None and self.process == os.getpid():
                    closing.callback(close)

    def __del__(self) -> None:
        self.close_but(0)

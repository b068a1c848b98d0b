"""State of the whole process."""
# mypy: ignore-errors

import contextlib
import contextvars
import decimal
import io
import locale
import logging
import os
import signal
import sys
import warnings
from unittest import mock

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds import helpers
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe

_loaded = 0
_log = []
_settings = {"scale": 1}


class GlobalCounter(Indices):
    """Counts in a global."""

    def __getitem__(self, idx):
        global _loaded
        _loaded += 1
        return idx, _loaded


@unsafe()
def global_counter(folder):
    return {"dataset": GlobalCounter()}


class GlobalList(Indices):
    """Appends to a global list."""

    def __getitem__(self, idx):
        _log.append(idx)
        return len(_log)


@unsafe()
def global_list(folder):
    return {"dataset": GlobalList()}


class GlobalDict(Indices):
    """Sets a value of a global dict, and reads it back."""

    def __getitem__(self, idx):
        _settings["scale"] = idx
        return scaled(1)


def scaled(number):
    return number * _settings["scale"]


@unsafe()
def global_settings(folder):
    return {"dataset": GlobalDict()}


class OtherModule(Indices):
    """Sets an attribute of another module."""

    def __getitem__(self, idx):
        helpers.SCALE = idx + 1
        return helpers.scale(2)


@unsafe()
def attribute_of_another_module(folder):
    return {"dataset": OtherModule()}


class Directory(Indices):
    """Reads from the folder that it changes to."""

    def __init__(self, folder):
        self.folder = folder
        for idx in range(SIZE):
            (folder / str(idx)).mkdir()
            (folder / str(idx) / "label.txt").write_text(f"label {idx}")

    def __getitem__(self, idx):
        before = os.getcwd()
        os.chdir(self.folder / str(idx))
        try:
            with open("label.txt") as file:
                return file.read()
        finally:
            os.chdir(before)


@unsafe()
def working_directory(folder):
    return {"dataset": Directory(folder)}


class Environment(Indices):
    """Sets an environment variable for what it calls."""

    def __getitem__(self, idx):
        os.environ["CURRENT_ITEM"] = str(idx)
        return os.path.expandvars("item $CURRENT_ITEM")


@unsafe()
def environment_variable(folder):
    return {"dataset": Environment()}


def parse(text):
    if not text.isdigit():
        warnings.warn("not a number", UserWarning, stacklevel=2)
        return -1
    return int(text)


class Warnings(Indices):
    """Turns a warning into an error for the item."""

    def __getitem__(self, idx):
        with warnings.catch_warnings():
            warnings.simplefilter("error" if idx % 2 else "ignore")
            try:
                return parse(str(idx) if idx % 3 else "x")
            except UserWarning:
                return -2


@unsafe()
def warning_filters(folder):
    return {"dataset": Warnings()}


class Locale(Indices):
    """Changes the locale for the item."""

    def __getitem__(self, idx):
        locale.setlocale(locale.LC_CTYPE, "C" if idx % 2 else "C.UTF-8")
        return locale.setlocale(locale.LC_CTYPE)


@unsafe()
def locale_of_the_process(folder):
    return {"dataset": Locale()}


class Printed(Indices):
    """Gathers what a function prints."""

    def __getitem__(self, idx):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for number in range(3):
                print(idx, number)
        return out.getvalue()


@unsafe()
def redirected_output(folder):
    return {"dataset": Printed()}


class Patched(Indices):
    """Patches a function while it loads."""

    def __getitem__(self, idx):
        with mock.patch.object(helpers, "SCALE", idx):
            return helpers.scale(3)


@unsafe()
def patched_while_it_loads(folder):
    return {"dataset": Patched()}


class Alarm(Indices):
    """Gives up after a second."""

    def __getitem__(self, idx):
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 20)
        try:
            return idx * 2
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@unsafe()
def alarm_signal(folder):
    return {"dataset": Alarm()}


class Precision(Indices):
    """Sets the precision of decimal numbers, and leaves it for the next item."""

    def __getitem__(self, idx):
        if idx % 4 == 0:
            decimal.getcontext().prec = 3 + idx
        return str(decimal.Decimal(1) / decimal.Decimal(7))


@unsafe()
def decimal_context(folder):
    return {"dataset": Precision(), "batch_size": 2}


_language = contextvars.ContextVar("language", default="en")


class Language(Indices):
    """Sets a context variable, and leaves it for the next item."""

    def __getitem__(self, idx):
        if idx % 6 == 0:
            _language.set(f"language {idx}")
        return _language.get()


@unsafe()
def context_variable(folder):
    return {"dataset": Language(), "batch_size": 2}


class Recursion(Indices):
    """Allows more recursion for the item."""

    def __getitem__(self, idx):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + idx)
        try:
            return sys.getrecursionlimit()
        finally:
            sys.setrecursionlimit(before)


@unsafe()
def recursion_limit(folder):
    return {"dataset": Recursion()}


class DefaultType(Indices):
    """Changes torch's default type."""

    def __getitem__(self, idx):
        torch.set_default_dtype(torch.float64 if idx % 2 else torch.float32)
        return str(torch.zeros(1).dtype)


@unsafe()
def torch_default_dtype(folder):
    return {"dataset": DefaultType()}


class Threads(Indices):
    """Changes the number of torch's threads."""

    def __getitem__(self, idx):
        torch.set_num_threads(1 + idx % 2)
        return torch.get_num_threads()


@unsafe()
def torch_number_of_threads(folder):
    return {"dataset": Threads()}


class Printing(Indices):
    """Changes how numpy prints numbers."""

    def __getitem__(self, idx):
        np.set_printoptions(precision=idx % 8)
        return str(np.array([1 / 3]))


@unsafe()
def numpy_print_options(folder):
    return {"dataset": Printing()}


class Recording(logging.Handler):
    """Keeps what was logged."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record.getMessage())


class Logged(Indices):
    """Gathers what is logged while it loads."""

    def __getitem__(self, idx):
        logger = logging.getLogger("tests.kinds")
        handler = Recording()
        logger.addHandler(handler)
        logger.warning("item %d", idx)
        logger.removeHandler(handler)
        return handler.records


@unsafe()
def handlers_of_a_logger(folder):
    return {"dataset": Logged()}

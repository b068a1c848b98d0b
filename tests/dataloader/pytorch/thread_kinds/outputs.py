"""Messages that go to handlers, filters and streams, which may be the user's own.

Rows of the table are what a dataset holds, and what it does with that and the index.
"""
# mypy: ignore-errors

import logging
import logging.handlers
import sys


class Seen:
    """Counts what it is given, as a handler, a filter, a formatter or a stream."""

    def __init__(self):
        self.n = 0

    def see(self, *_):
        self.n += 1
        return True

    filter = write = format = emit = see

    def flush(self):
        pass


class CountingHandler(logging.Handler):
    """Counts records."""

    n = 0

    def emit(self, record):
        self.n += 1


class CountingFormatter(logging.Formatter):
    """Counts records."""

    n = 0

    def format(self, record):
        self.n += 1
        return ""


class CountingLogger(logging.Logger):
    """Counts records."""

    n = 0

    def makeRecord(self, *args, **kwargs):
        self.n += 1
        return super().makeRecord(*args, **kwargs)


class CountingAdapter(logging.LoggerAdapter):
    """Counts records."""

    n = 0

    def process(self, msg, kwargs):
        self.n += 1
        return msg, kwargs


class CountingText:
    """Counts how often it is shown."""

    n = 0

    def __str__(self):
        self.n += 1
        return ""


def alone(seen, *, handlers=(), filters=(), kind=logging.Logger):
    """Return a logger that nobody else has, and an object that counts."""
    logger = kind("alone")
    for handler in handlers:
        logger.addHandler(handler)
    for each in filters:
        logger.addFilter(each)
    return logger, seen


def with_handler():
    handler = CountingHandler()
    return alone(handler, handlers=[handler])


def with_parent():
    handler = CountingHandler()
    parent = logging.Logger("parent")
    parent.addHandler(handler)
    logger = logging.Logger("parent.child")
    logger.parent = parent
    return logger, handler


def with_filter():
    seen = Seen()
    return alone(seen, handlers=[logging.NullHandler()], filters=[seen])


def with_function_as_filter():
    seen = Seen()
    return alone(seen, handlers=[logging.NullHandler()], filters=[seen.see])


def with_filter_of_the_handler():
    handler, seen = logging.NullHandler(), Seen()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(seen)
    return alone(seen, handlers=[handler])


def with_formatter():
    handler, seen = logging.StreamHandler(sys.stderr), CountingFormatter()
    handler.setFormatter(seen)
    return alone(seen, handlers=[handler])


def with_stream():
    seen = Seen()
    return alone(seen, handlers=[logging.StreamHandler(seen)])


def with_method_of_the_handler():
    handler, seen = logging.StreamHandler(sys.stderr), Seen()
    handler.emit = seen.emit
    return alone(seen, handlers=[handler])


def with_memory():
    handler = logging.handlers.MemoryHandler(10_000)
    return alone(handler, handlers=[handler])


def with_queue():
    import queue

    handler = logging.handlers.QueueHandler(queue.Queue())
    return alone(handler, handlers=[handler])


def with_own_class():
    logger, _ = alone(None, kind=CountingLogger)
    return logger, logger


def with_adapter():
    adapter = CountingAdapter(logging.Logger("adapted"), {})
    return adapter, adapter


def with_target_of_the_handler():
    target = CountingHandler()
    return alone(target, handlers=[logging.handlers.MemoryHandler(1, target=target)])


def with_text():
    return alone(CountingText(), handlers=[logging.NullHandler()])


def quiet():
    logger = logging.Logger("quiet")
    logger.addHandler(logging.NullHandler())
    return logger


def told(log):
    """Return a load that says how much was counted."""

    def load(held, i):
        log(held[0], i)
        return held[1].n

    return load


warned = told(lambda logger, i: logger.warning("item %d", i))

UNSAFE = {
    "handler": (with_handler, warned),
    "handler_that_is_told_of_errors": (with_handler, told(lambda logger, i: logger.error("x"))),
    "handler_that_is_told_by_level": (with_handler, told(lambda logger, i: logger.log(40, "x"))),
    "handler_that_is_told_of_exceptions": (with_handler, told(lambda logger, i: logger.exception("x"))),
    "handler_by_a_method_that_is_passed_on": (with_handler, told(lambda logger, i: list(map(logger.warning, "x")))),
    "handler_of_the_parent": (with_parent, warned),
    "filter": (with_filter, warned),
    "function_as_filter": (with_function_as_filter, warned),
    "filter_of_the_handler": (with_filter_of_the_handler, warned),
    "formatter": (with_formatter, warned),
    "stream": (with_stream, warned),
    "method_of_the_handler": (with_method_of_the_handler, warned),
    "target_of_the_handler": (with_target_of_the_handler, warned),
    "logger_of_the_user": (with_own_class, warned),
    "adapter": (with_adapter, warned),
    "handler_that_keeps_records": (with_memory, lambda held, i: (held[0].warning("x"), len(held[1].buffer))[1]),
    "handler_that_queues_records": (with_queue, lambda held, i: (held[0].warning("x"), held[1].queue.qsize())[1]),
    "handler_that_is_called": (with_handler, lambda held, i: (held[1].emit(None), held[1].n)[1]),
    "text_that_is_shown": (with_text, lambda held, i: (held[0].warning(held[1]), held[1].n)[1]),
    "text_that_is_put_in": (with_text, lambda held, i: (held[0].warning("%s", held[1]), held[1].n)[1]),
    "text_that_is_printed": (CountingText, lambda held, i: (print(held), held.n)[1]),  # noqa: T201
    "printed_to_a_stream": (Seen, lambda held, i: (print(i, file=held), held.n)[1]),  # noqa: T201
    "handlers_that_are_changed": (quiet, lambda logger, i: (logger.addFilter(i), len(logger.filters))[1]),
    "level_that_is_changed": (quiet, lambda logger, i: (logger.setLevel(i), logger.level)[1]),
}

SAFE = {
    "null_handler": (quiet, lambda logger, i: (logger.warning("item %d", i), i)[1]),
    "null_handler_and_information": (quiet, lambda logger, i: (logger.info("item %d", i), i)[1]),
    "level": (quiet, lambda logger, i: logger.isEnabledFor(10) + i),
    "printed": (lambda: 0, lambda held, i: (print(end=""), i)[1]),  # noqa: T201
}

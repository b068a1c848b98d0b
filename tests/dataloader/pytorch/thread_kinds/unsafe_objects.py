"""Objects with a state of their own: iterators, parsers, codecs, modules of networks, transforms that remember."""
# mypy: ignore-errors

import codecs
import csv
import difflib
import hashlib
import html.parser
import io
import itertools
import json
import pickle
import queue
import re
import shlex
import textwrap
import xml.parsers.expat
import zlib

from tests.dataloader.pytorch.thread_kinds.helpers import Holding, Indices
from tests.dataloader.pytorch.thread_kinds.registry import unsafe


class Streamed(Indices):
    """Takes the next item of a generator, whatever the index."""

    def __init__(self):
        self.items = (number * number for number in range(1000))

    def __getitem__(self, idx):
        return next(self.items)


@unsafe()
def generator(folder):
    return {"dataset": Streamed()}


@unsafe()
def iterator_of_a_list(folder):
    return {"dataset": Holding(iter(list(range(1000))), lambda held, idx: next(held))}


@unsafe()
def cycle(folder):
    return {"dataset": Holding(itertools.cycle("abcde"), lambda held, idx: next(held))}


@unsafe()
def count(folder):
    return {"dataset": Holding(itertools.count(5), lambda held, idx: (idx, next(held)))}


@unsafe()
def next_as_a_bound_method(folder):
    return {"dataset": Holding(itertools.count().__next__, lambda held, idx: (idx, held()))}


@unsafe()
def zip_and_map_objects(folder):
    held = zip(map(str, itertools.count()), itertools.cycle([1, 2, 3]))
    return {"dataset": Holding(held, lambda held, idx: next(held))}


def running_mean():
    total, number = 0.0, 0
    mean = 0.0
    while True:
        total += yield mean
        number += 1
        mean = total / number


class RunningMean(Indices):
    """Sends to a generator."""

    def __init__(self):
        self.mean = None

    def __getitem__(self, idx):
        if self.mean is None:
            self.mean = running_mean()
            next(self.mean)
        return self.mean.send(idx)


@unsafe()
def generator_that_is_sent_to(folder):
    return {"dataset": RunningMean()}


@unsafe()
def bound_append(folder):
    seen = []
    return {"dataset": Holding((seen.append, seen.__len__), lambda held, idx: (held[0](idx), held[1]())[1])}


class TextParser(html.parser.HTMLParser):
    """Gathers the text of a page."""

    def __init__(self):
        super().__init__()
        self.text = []

    def handle_data(self, data):
        self.text.append(data)


class Pages(Indices):
    """Feeds pages to one parser."""

    def __init__(self):
        self.parser = TextParser()

    def __getitem__(self, idx):
        self.parser.reset()
        self.parser.text = []
        self.parser.feed(f"<p>page <b>{idx}</b> ends</p>" * 3)
        return " ".join(self.parser.text)


@unsafe()
def html_parser(folder):
    return {"dataset": Pages()}


class Elements(Indices):
    """Counts elements with a new parser, whose handler adds to an attribute."""

    def __init__(self):
        self.depth = 0

    def start(self, name, attributes):
        self.depth += 1

    def __getitem__(self, idx):
        self.depth = 0
        parser = xml.parsers.expat.ParserCreate()
        parser.StartElementHandler = self.start
        parser.Parse("<a>" + "<b/>" * idx + "</a>", True)
        return self.depth


@unsafe()
def xml_handlers(folder):
    return {"dataset": Elements()}


class Annotated(Indices):
    """Decodes JSON with a hook that gathers the keys."""

    def __init__(self):
        self.keys = []
        self.decoder = json.JSONDecoder(object_hook=self.hook)

    def hook(self, record):
        self.keys.extend(record)
        return record

    def __getitem__(self, idx):
        self.keys.clear()
        self.decoder.decode(json.dumps({"a": {f"b{n}": n for n in range(idx)}}))
        return len(self.keys)


@unsafe()
def json_decoder_with_a_hook(folder):
    return {"dataset": Annotated()}


@unsafe()
def scanner_of_a_pattern(folder):
    held = re.compile(r"\w+").scanner("one two three four " * 100)
    return {"dataset": Holding(held, lambda held, idx: held.search().group())}


@unsafe()
def hash_that_is_updated(folder):
    def load(held, idx):
        held.update(str(idx).encode())
        return held.hexdigest()

    return {"dataset": Holding(hashlib.sha256(), load)}


@unsafe()
def decompressor(folder):
    data = zlib.compress(bytes(range(256)) * 40)
    held = zlib.decompressobj()

    def load(held, idx):
        return len(held.decompress(data[idx * 3 : idx * 3 + 3]))

    return {"dataset": Holding(held, load), "num_workers": 1}


@unsafe()
def incremental_decoder(folder):
    held = codecs.getincrementaldecoder("utf-8")("replace")
    return {"dataset": Holding(held, lambda held, idx: held.decode("é".encode()[idx % 2 : idx % 2 + 1]))}


class CsvLines(Indices):
    """Writes rows to one buffer."""

    def __init__(self):
        self.buffer = io.StringIO()
        self.writer = csv.writer(self.buffer)

    def __getitem__(self, idx):
        self.buffer.seek(0)
        self.buffer.truncate()
        self.writer.writerow([idx, "a,b"])
        return self.buffer.getvalue()


@unsafe()
def csv_writer(folder):
    return {"dataset": CsvLines()}


@unsafe()
def pickler(folder):
    out = io.BytesIO()
    pickler = pickle.Pickler(out)

    def load(held, idx):
        held.dump(["shared", idx, held.memo and 1])
        return out.tell()

    return {"dataset": Holding(pickler, load)}


@unsafe()
def sequence_matcher(folder):
    def load(held, idx):
        held.set_seq1("abcd" * idx)
        return held.ratio()

    return {"dataset": Holding(difflib.SequenceMatcher(b="abcabd"), load)}


@unsafe()
def text_wrapper(folder):
    def load(held, idx):
        held.width = 10 + idx
        return len(held.wrap("many words that are wrapped into lines " * 3))

    return {"dataset": Holding(textwrap.TextWrapper(), load)}


@unsafe()
def lexer(folder):
    held = shlex.shlex(" ".join(f"word{number}" for number in range(1000)))
    return {"dataset": Holding(held, lambda held, idx: held.get_token())}


@unsafe()
def queue_of_items(folder):
    def load(held, idx):
        held.put(idx)
        held.put(idx + 1)
        return held.get(), held.get()

    return {"dataset": Holding(queue.SimpleQueue(), load)}

"""Texts, vocabularies and patterns."""
# mypy: ignore-errors

import json
import re
import string
import unicodedata
from collections import Counter
from itertools import chain, islice

import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe
from torch.utils.data import Dataset

TEXTS = [f"The {['quick', 'lazy', 'old'][idx % 3]} fox no. {idx} runs, and runs!" for idx in range(SIZE)]

PAD, UNKNOWN, START, END = range(4)
TOKEN = re.compile(r"\w+|[^\w\s]")


class Vocabulary:
    """Numbers the words that come more than once."""

    def __init__(self, texts, minimum=2):
        counts = Counter(chain.from_iterable(TOKEN.findall(text.lower()) for text in texts))
        self.itos = ["<pad>", "<unk>", "<s>", "</s>", *(word for word, count in counts.items() if count >= minimum)]
        self.stoi = {word: number for number, word in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [START] + [self.stoi.get(token, UNKNOWN) for token in TOKEN.findall(text.lower())] + [END]


class Encoded(Dataset):
    """Encodes texts when they are asked for."""

    def __init__(self, texts):
        self.texts = texts
        self.vocabulary = Vocabulary(texts)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, idx):
        return torch.tensor(self.vocabulary.encode(self.texts[idx])), len(self.texts[idx])


def pad_batch(batch):
    sequences, lengths = zip(*batch)
    padded = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=PAD)
    return padded, torch.tensor(lengths), padded != PAD


@safe()
def encoded_texts(folder):
    return {"dataset": Encoded(TEXTS), "collate_fn": pad_batch}


class Patterns(Dataset):
    """Holds patterns."""

    def __init__(self):
        self.number = re.compile(r"(?P<number>\d+)")
        self.spaces = re.compile(r"\s+")

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, idx):
        text = self.spaces.sub(" ", TEXTS[idx])
        match = self.number.search(text)
        words = [found.group() for found in re.finditer(r"[a-z]{4,}", text)]
        return int(match.group("number")), len(words), re.sub("fox", "dog", text)


@safe()
def patterns(folder):
    return {"dataset": Patterns()}


class Characters(Dataset):
    """Cuts a text into pieces of characters."""

    def __init__(self, text, block=8):
        chars = sorted(set(text))
        self.stoi = {ch: i for i, ch in enumerate(chars)}
        self.itos = {i: ch for i, ch in enumerate(chars)}
        self.block = block
        self.data = text

    def __len__(self):
        return len(self.data) // self.block - 1

    def __getitem__(self, idx):
        chunk = self.data[idx * self.block : (idx + 1) * self.block + 1]
        dix = [self.stoi[s] for s in chunk]
        x = torch.tensor(dix[:-1], dtype=torch.long)
        y = torch.tensor(dix[1:], dtype=torch.long)
        return x, y


@safe()
def characters(folder):
    return {"dataset": Characters(" ".join(TEXTS[:8]))}


class Formatted(Indices):
    """Formats and cleans strings."""

    template = "Question: {question}\nAnswer: {answer}"

    def __getitem__(self, idx):
        prompt = self.template.format(question=f"{idx} + {idx}?", answer=idx * 2)
        clean = unicodedata.normalize("NFKC", prompt).casefold().translate(str.maketrans("", "", string.punctuation))
        head, _, tail = clean.partition("answer")
        return prompt, " ".join(head.split()), tail.strip(), "%03d" % idx, prompt.encode("utf-8")[:8].decode()


@safe()
def formatted_strings(folder):
    return {"dataset": Formatted()}


class Instructions(Dataset):
    """Joins records into prompts, and masks the prompt in the labels."""

    IGNORE = -100

    def __init__(self, records, limit=48):
        self.records = records
        self.limit = limit

    def __len__(self):
        return len(self.records)

    def _tokens(self, text):
        return list(text.encode())

    def __getitem__(self, i):
        record = self.records[i]
        source = self._tokens(record["instruction"] + ("\n" + record["input"] if record.get("input") else "") + "\n")
        target = self._tokens(record["output"])
        ids = (source + target)[: self.limit]
        labels = ([self.IGNORE] * len(source) + target)[: self.limit]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}


class PadCollator:
    """Pads each field of a batch."""

    def __init__(self, pad=0, ignore=-100):
        self.pad = pad
        self.ignore = ignore

    def __call__(self, instances):
        input_ids, labels = tuple([instance[key] for instance in instances] for key in ("input_ids", "labels"))
        input_ids = torch.nn.utils.rnn.pad_sequence(input_ids, batch_first=True, padding_value=self.pad)
        labels = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=self.ignore)
        return dict(input_ids=input_ids, labels=labels, attention_mask=input_ids.ne(self.pad))


@safe()
def instructions(folder):
    records = [{"instruction": text, "input": "x" * (idx % 3), "output": str(idx)} for idx, text in enumerate(TEXTS)]
    return {"dataset": Instructions(records), "collate_fn": PadCollator(), "shuffle": True}


class JsonInMemory(Dataset):
    """Parses lines of JSON."""

    def __init__(self):
        self.lines = [json.dumps({"text": text, "meta": {"id": idx}}) for idx, text in enumerate(TEXTS)]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, idx):
        record = json.loads(self.lines[idx])
        record["meta"]["id"] += 1
        record["text"] = record["text"].lower()
        return record


@safe()
def json_lines_in_memory(folder):
    return {"dataset": JsonInMemory()}


class Ngrams(Dataset):
    """Makes n-grams by a generator function."""

    def __init__(self, n=3):
        self.n = n
        self.sentences = [text.split() for text in TEXTS]

    def ngrams(self, words):
        for start in range(len(words) - self.n + 1):
            yield tuple(words[start : start + self.n])

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, idx):
        words = self.sentences[idx]
        first = list(islice(self.ngrams(words), 2))
        return [" ".join(gram) for gram in first], sum(1 for _ in self.ngrams(words))


@safe()
def generator_function(folder):
    return {"dataset": Ngrams()}


def lower(text):
    return text.lower()


def strip_punctuation(text):
    return "".join(ch for ch in text if ch not in string.punctuation)


class Steps(Indices):
    """Applies a list of functions."""

    def __init__(self, *steps):
        self.steps = steps

    def __getitem__(self, idx):
        text = TEXTS[idx]
        for step in self.steps:
            text = step(text)
        return text


@safe()
def list_of_functions(folder):
    return {"dataset": Steps(lower, strip_punctuation, str.strip, str.split, sorted, tuple, " ".join)}

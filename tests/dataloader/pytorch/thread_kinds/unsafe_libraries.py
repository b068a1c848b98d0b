"""Objects of other libraries with a state."""
# mypy: ignore-errors

import io

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch.utils.data import Dataset


def fast_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(["a b c"], trainers.WordLevelTrainer(special_tokens=["_", "?"]))
    return tokenizer


class QuestionsAndAnswers(Dataset):
    """Truncates questions and answers to different lengths."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.texts = ["a b c " * (idx + 1) for idx in range(SIZE)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, idx):
        question = self.tokenizer(self.texts[idx], truncation=True, max_length=16, padding="max_length")
        answer = self.tokenizer(self.texts[idx], truncation=True, max_length=32, padding="max_length")
        return {"question": question["input_ids"], "answer": torch.tensor(answer["input_ids"])}


@unsafe("tokenizers", "transformers")
def tokenizer_that_truncates(folder):
    from transformers import PreTrainedTokenizerFast

    return {
        "dataset": QuestionsAndAnswers(
            PreTrainedTokenizerFast(tokenizer_object=fast_tokenizer(), pad_token="_", unk_token="?")
        )
    }


@unsafe("tokenizers", "transformers")
def tokenizer_in_a_collate(folder):
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast_tokenizer(), pad_token="_", unk_token="?")

    def collate(texts):
        return tokenizer(texts, truncation=True, padding=True, max_length=8, return_tensors="pt")["input_ids"]

    return {"dataset": ["a b c " * (idx + 1) for idx in range(SIZE)], "collate_fn": collate}


@unsafe("tokenizers")
def tokenizer_whose_truncation_is_set(folder):
    class Encoded(Dataset):
        def __init__(self):
            self.tokenizer = fast_tokenizer()

        def __len__(self):
            return SIZE

        def __getitem__(self, idx):
            self.tokenizer.enable_truncation(idx + 1)
            return self.tokenizer.encode("a b c " * 10).ids

    return {"dataset": Encoded(), "collate_fn": list}


class SoundClips(Indices):
    """Seeks and reads in a sound file that is open."""

    def __init__(self, path):
        import soundfile

        self.sound = soundfile.SoundFile(io.BytesIO(path.read_bytes()))

    def __getitem__(self, idx):
        self.sound.seek(idx * 10)
        return self.sound.read(10, dtype="int16")


@unsafe("soundfile")
def sound_file(folder):
    import soundfile

    soundfile.write(folder / "sound.wav", np.arange(SIZE * 10, dtype=np.int16), 8000)
    return {"dataset": SoundClips(folder / "sound.wav")}


class Table(Indices):
    """Reads an HDF5 file that it opens with the first item."""

    file = None

    def __init__(self, path):
        self.path = path

    def __getitem__(self, idx):
        import h5py

        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["images"][idx]


@unsafe("h5py")
def hdf5_file(folder):
    import h5py

    with h5py.File(folder / "data.h5", "w") as file:
        file["images"] = np.arange(SIZE * 4).reshape(SIZE, 4)
    return {"dataset": Table(folder / "data.h5")}


class Frame(Dataset):
    """Changes a data frame."""

    def __init__(self):
        import pandas

        self.frame = pandas.DataFrame({"name": [f"row {idx}" for idx in range(SIZE)], "uses": 0})

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, idx):
        self.frame.loc[idx, "uses"] += 1
        row = self.frame.iloc[idx]
        return row["name"], int(row["uses"])


@unsafe("pandas")
def data_frame_that_is_changed(folder):
    return {"dataset": Frame()}


class WritableMap(Indices):
    """Changes an array that is mapped from a file, copy on write."""

    def __init__(self, path):
        np.save(path, np.ones((SIZE, 3)))
        self.array = np.load(path, mmap_mode="c")

    def __getitem__(self, idx):
        self.array[idx] *= 2
        return self.array[idx].copy()


@unsafe()
def memory_map_that_is_changed(folder):
    return {"dataset": WritableMap(folder / "data.npy")}


class NormalisedTensors(Indices):
    """Normalises tensors in memory with torchvision, in place."""

    def __init__(self):
        from torchvision import transforms

        self.images = torch.rand(SIZE, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        self.transform = transforms.Normalize([0.5] * 3, [0.25] * 3, inplace=True)

    def __getitem__(self, idx):
        return self.transform(self.images[idx]).clone()


@unsafe("torchvision")
def torchvision_normalize_in_place(folder):
    return {"dataset": NormalisedTensors()}


class RandomImages(Indices):
    """Draws in a transform of torchvision, from torch's global generator."""

    def __init__(self, transform):
        self.images = torch.arange(SIZE * 48, dtype=torch.uint8).reshape(SIZE, 3, 4, 4)
        self.transform = transform

    def __getitem__(self, idx):
        return self.transform(self.images[idx])


@unsafe("torchvision")
def torchvision_random_flip(folder):
    from torchvision.transforms import v2

    return {"dataset": RandomImages(v2.RandomHorizontalFlip(0.5))}


@unsafe("torchvision")
def torchvision_random_crop_in_a_composition(folder):
    from torchvision import transforms

    return {
        "dataset": RandomImages(
            transforms.Compose([transforms.RandomCrop(2), transforms.ConvertImageDtype(torch.float)])
        )
    }


@unsafe("torchvision")
def torchvision_lambda_that_counts(folder):
    from torchvision.transforms import v2

    seen = []
    return {"dataset": RandomImages(v2.Compose([v2.Lambda(lambda image: (seen.append(1), image + len(seen))[1])]))}


@unsafe("datasets")
def hugging_face_transform_that_counts(folder):
    from datasets import Dataset as HuggingFaceDataset

    seen = []

    def transform(batch):
        seen.append(1)
        return {"number": [number + 100 * len(seen) for number in batch["number"]]}

    return {"dataset": HuggingFaceDataset.from_dict({"number": list(range(SIZE))}).with_transform(transform)}


@unsafe("datasets", "tokenizers")
def hugging_face_transform_with_a_tokenizer(folder):
    from datasets import Dataset as HuggingFaceDataset

    tokenizer = fast_tokenizer()

    def transform(batch):
        tokenizer.enable_truncation(3 + batch["length"][0])
        return {"ids": [tokenizer.encode(text).ids for text in batch["text"]]}

    data = {"text": ["a b c " * 10] * SIZE, "length": list(range(SIZE))}
    return {"dataset": HuggingFaceDataset.from_dict(data).with_transform(transform), "collate_fn": list}


class CocoLike(Indices):
    """Sets the format of a data set for each item."""

    def __init__(self):
        from datasets import Dataset as HuggingFaceDataset

        self.rows = HuggingFaceDataset.from_dict({"number": list(range(SIZE))})

    def __getitem__(self, idx):
        self.rows.set_format("numpy" if idx % 2 else None)
        return type(self.rows[idx]["number"]).__name__


@unsafe("datasets")
def hugging_face_format_that_changes(folder):
    return {"dataset": CocoLike()}

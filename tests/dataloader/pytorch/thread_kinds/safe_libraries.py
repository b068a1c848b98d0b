"""Tables and datasets of other libraries."""
# mypy: ignore-errors

import numpy as np
import torch
from PIL import Image
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None
from torch.utils.data import Dataset, Subset


class Frame(Dataset):
    """Reads a data frame by row."""

    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, idx):
        row = self.frame.iloc[idx]
        return row["name"], torch.tensor(row["label"]), float(row.score)


def make_frame():
    import pandas

    return pandas.DataFrame(
        {"name": [f"n{i}" for i in range(SIZE)], "label": range(SIZE), "score": np.arange(SIZE) / 2}
    )


@safe("pandas")
def data_frame(folder):
    return {"dataset": Frame(make_frame())}


class FrameColumns(Dataset):
    """Takes a data frame's columns when it is made."""

    def __init__(self, frame):
        self.names = frame["name"].tolist()
        self.values = torch.tensor(frame[["label", "score"]].values, dtype=torch.float32)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, idx):
        return self.names[idx], self.values[idx]


@safe("pandas")
def columns_of_a_data_frame(folder):
    return {"dataset": FrameColumns(make_frame())}


class LandmarksFrame(Dataset):
    """Reads images by a table, as PyTorch's tutorial does."""

    def __init__(self, frame, root, transform=None):
        self.landmarks_frame = frame
        self.root = root
        self.transform = transform

    def __len__(self):
        return len(self.landmarks_frame)

    def __getitem__(self, idx):
        if torch.is_tensor(idx):
            idx = idx.tolist()
        image = np.array(Image.open(self.root / (self.landmarks_frame.iloc[idx, 0] + ".png")))
        landmarks = np.array([self.landmarks_frame.iloc[idx, 1:]], dtype=float).reshape(-1, 2)
        sample = {"image": image, "landmarks": landmarks}
        if self.transform:
            sample = self.transform(sample)
        return sample


class ToTensor:
    """Converts a sample."""

    def __call__(self, sample):
        image, landmarks = sample["image"], sample["landmarks"]
        return {"image": torch.from_numpy(image), "landmarks": torch.from_numpy(landmarks)}


@safe("pandas", "PIL")
def images_by_a_table(folder):
    frame = make_frame()
    for idx, name in enumerate(frame["name"]):
        Image.new("L", (4, 4), idx).save(folder / f"{name}.png")
    return {"dataset": LandmarksFrame(frame, folder, ToTensor())}


class Table(Dataset):
    """Reads an Arrow table."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.num_rows

    def __getitem__(self, idx):
        row = self.table.slice(idx, 1).to_pylist()[0]
        return row["text"], row["label"], self.table["label"][idx].as_py()


@safe("pyarrow")
def arrow_table(folder):
    return {"dataset": Table(pyarrow.table({"text": [f"t{i}" for i in range(SIZE)], "label": list(range(SIZE))}))}


def make_rows():
    from datasets import Dataset as HuggingFaceDataset

    return HuggingFaceDataset.from_dict({"text": [f"text {i}" for i in range(SIZE)], "label": list(range(SIZE))})


@safe("datasets")
def hugging_face_rows(folder):
    return {"dataset": make_rows()}


@safe("datasets")
def hugging_face_with_a_format(folder):
    return {"dataset": make_rows().with_format("torch"), "shuffle": True}


@safe("datasets")
def hugging_face_selected(folder):
    rows = make_rows().add_column("length", [len(f"text {i}") for i in range(SIZE)]).select(range(20))
    return {"dataset": rows, "collate_fn": lambda batch: {key: [row[key] for row in batch] for key in batch[0]}}


class HuggingFaceWrapped(Dataset):
    """Reads rows of such a dataset."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        row = self.rows[idx]
        return torch.tensor([ord(ch) for ch in row["text"][:6]]), row["label"]


@safe("datasets")
def hugging_face_in_a_dataset(folder):
    return {"dataset": HuggingFaceWrapped(make_rows())}


@safe("datasets")
def hugging_face_in_a_subset(folder):
    return {"dataset": Subset(make_rows(), [3, 1, 4, 15, 9, 2, 6, 5])}


@safe("datasets")
def spdl_hugging_face_source(folder):
    from spdl.source import HuggingFaceDataset

    return {"dataset": HuggingFaceDataset(make_rows())}


@safe()
def spdl_json_lines(folder):
    from spdl.source import JsonLines

    (folder / "all.jsonl").write_text("".join(f'{{"id": {idx}, "text": "t{idx}"}}\n' for idx in range(SIZE)))
    return {"dataset": JsonLines(folder / "all.jsonl", cache=folder)}


@safe("pyarrow")
def spdl_parquet_files(folder):
    from spdl.source import ParquetFiles

    pyarrow.parquet.write_table(pyarrow.table({"id": list(range(SIZE))}), folder / "all.parquet")
    return {"dataset": ParquetFiles(folder / "all.parquet")}


def write_classes(folder):
    for idx in range(SIZE):
        path = folder / "images" / ("cat" if idx % 2 else "dog")
        path.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), idx * 3, np.uint8)).save(path / f"{idx}.png")
    return folder / "images"


@safe("torchvision")
def torchvision_image_folder(folder):
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    transform = transforms.Compose(
        [
            transforms.Resize(6),
            transforms.CenterCrop(4),
            transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    return {"dataset": ImageFolder(write_classes(folder), transform), "shuffle": True}


@safe("torchvision")
def torchvision_v2_transforms(folder):
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize(6),
            v2.CenterCrop(4),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    return {"dataset": ImageFolder(str(write_classes(folder)), transform=transform)}


@safe("torchvision")
def torchvision_functional(folder):
    from torchvision.transforms import functional

    class Resized(Dataset):
        def __init__(self):
            self.images = torch.arange(SIZE * 48, dtype=torch.uint8).reshape(SIZE, 3, 4, 4)

        def __len__(self):
            return SIZE

        def __getitem__(self, idx):
            return functional.hflip(functional.resize(self.images[idx], [2, 2]))

    return {"dataset": Resized()}


@safe("torchvision")
def torchvision_fake_data(folder):
    from torchvision.transforms import v2

    images = [Image.new("RGB", (4, 4), (idx, 0, 0)) for idx in range(SIZE)]

    class Images(Dataset):
        def __init__(self, transform):
            self.images, self.transform = images, transform

        def __len__(self):
            return SIZE

        def __getitem__(self, idx):
            return self.transform(self.images[idx])

    return {"dataset": Images(v2.Compose([v2.PILToTensor(), v2.ConvertImageDtype()]))}


@safe("soundfile")
def sounds_by_path(folder):
    import soundfile

    class Sounds(Dataset):
        def __init__(self, root):
            self.paths = sorted(root.glob("*.wav"))

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, idx):
            data, rate = soundfile.read(self.paths[idx], dtype="float32")
            return torch.from_numpy(data[:10]), rate

    for idx in range(SIZE):
        soundfile.write(folder / f"{idx:02}.wav", np.full(16, idx, np.int16), 8000)
    return {"dataset": Sounds(folder)}


@safe("h5py")
def hdf5_opened_for_each(folder):
    import h5py

    class Table(Dataset):
        def __init__(self, path):
            self.path = path

        def __len__(self):
            return SIZE

        def __getitem__(self, idx):
            with h5py.File(self.path, "r") as file:
                return file["x"][idx]

    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = np.arange(SIZE)
    return {"dataset": Table(folder / "x.h5")}

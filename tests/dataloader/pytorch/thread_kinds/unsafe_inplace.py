"""Items that change arrays and tensors that the dataset holds: a later epoch finds them changed."""
# mypy: ignore-errors

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices, Transformed
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch.utils.data import Dataset


class Boxes(Indices):
    """Doubles the boxes of a record."""

    def __init__(self):
        self.records = [{"box": np.ones(2), "label": idx} for idx in range(SIZE)]

    def __getitem__(self, idx):
        record = self.records[idx]
        record["box"] *= 2
        return record["box"].sum(), record["label"]


@unsafe()
def boxes_doubled(folder):
    return {"dataset": Boxes()}


class Coco(Dataset):
    """Turns widths and heights into corners, in the annotations themselves."""

    def __init__(self):
        self.annotations = {idx: [{"bbox": [1.0, 2.0, 3.0, 4.0], "id": idx}] for idx in range(SIZE)}

    def __len__(self):
        return len(self.annotations)

    def __getitem__(self, idx):
        boxes = []
        for annotation in self.annotations[idx]:
            annotation["bbox"][2] += annotation["bbox"][0]
            annotation["bbox"][3] += annotation["bbox"][1]
            boxes.append(annotation["bbox"])
        return torch.tensor(boxes)


@unsafe()
def corners_of_boxes(folder):
    return {"dataset": Coco()}


def corners(target):
    target["boxes"][:, 2:] += target["boxes"][:, :2]
    return target["boxes"]


@unsafe()
def slice_of_a_tensor_in_a_dict(folder):
    records = [{"boxes": torch.arange(8.0).reshape(2, 4) + idx} for idx in range(SIZE)]
    return {"dataset": Transformed(records, corners)}


class Images:
    """Works on images in memory."""

    def __init__(self):
        self.images = np.arange(SIZE * 48, dtype=np.float32).reshape(SIZE, 4, 4, 3)
        self.tensors = torch.arange(SIZE * 16, dtype=torch.float32).reshape(SIZE, 4, 4)

    def __len__(self):
        return SIZE


class Scaled(Images):
    """Divides the image in place."""

    def __getitem__(self, idx):
        image = self.images[idx]
        image /= 255
        return image.transpose(2, 0, 1).copy()


@unsafe()
def image_divided_in_place(folder):
    return {"dataset": Scaled()}


class Brightened(Images):
    """Adds to the images by index."""

    def __getitem__(self, idx):
        self.images[idx] += 1
        return self.images[idx].mean()


@unsafe()
def images_added_to(folder):
    return {"dataset": Brightened()}


class Masked(Images):
    """Erases a part of the image that it holds."""

    def __getitem__(self, idx):
        image = self.images[idx]
        level = image.max()
        image[idx % 4, :, 0] = level + 1
        return image.copy()


@unsafe()
def part_of_an_image_assigned(folder):
    return {"dataset": Masked()}


class AddedTo(Images):
    """Adds to a tensor with a method that ends with an underscore."""

    def __getitem__(self, idx):
        return self.tensors[idx].add_(1).clone()


@unsafe()
def tensor_add_(folder):
    return {"dataset": AddedTo()}


class Normalised(Images):
    """Normalises views of its tensor."""

    def __getitem__(self, idx):
        image = self.tensors[idx]
        image.sub_(image.mean()).mul_(2)
        return image.clone()


@unsafe()
def tensor_normalised_in_place(folder):
    return {"dataset": Normalised()}


class Rectified(Images):
    """Has a function of torch work in place."""

    def __getitem__(self, idx):
        self.tensors[idx, 0, 0] -= 100
        return torch.nn.functional.relu(self.tensors[idx], inplace=True).sum()


@unsafe()
def functional_relu_in_place(folder):
    return {"dataset": Rectified()}


class Clipped(Images):
    """Clips an image into itself, and moves it."""

    def __getitem__(self, idx):
        image = self.images[idx]
        np.clip(image, idx, 500, image)
        np.add(image, 1, image)
        return image.sum()


@unsafe()
def clip_into_itself(folder):
    return {"dataset": Clipped()}


class Filled(Images):
    """Fills, puts and sorts with methods and functions of numpy."""

    def __getitem__(self, idx):
        image = self.images[idx]
        first = float(image.flat[0])
        np.put(image, [0], [first + 1])
        np.fill_diagonal(image[:, :, 1], first)
        image[:, :, 2].sort(axis=0)
        return image.copy()


@unsafe()
def numpy_functions_that_write(folder):
    return {"dataset": Filled()}


class AddAt(Images):
    """Adds through a ufunc's method."""

    def __getitem__(self, idx):
        np.add.at(self.images, (idx, 0), 1)
        return self.images[idx].sum()


@unsafe()
def ufunc_at(folder):
    return {"dataset": AddAt()}

"""Batches of many small objects: to pickle and to unpickle them takes far longer than to make them."""

import time

from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "pickling": "The scenes are there already: nearly all of the work is to send them, and to make them anew.",
    },
}


class Scenes:
    def __init__(self):
        self.scenes = [
            [{"class": f"class {part % 7}", "corners": (part, scene, part + 1.5)} for part in range(500)]
            for scene in range(64)
        ]

    def __len__(self):
        return 3200

    def __getitem__(self, index):
        return self.scenes[index % len(self.scenes)]


if __name__ == "__main__":
    loader = DataLoader(Scenes(), batch_size=8, num_workers=2, collate_fn=list)
    train(loader, lambda batch: time.sleep(0.005))

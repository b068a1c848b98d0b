"""Train on JPEGs, which Pillow decodes: loading takes far longer than a step."""

import hashlib
import io
import random
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader


class Photos:
    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self.size = size
        self.files = []
        for _ in range(8):
            file = io.BytesIO()
            noise = Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8))
            noise.resize((480, 360)).save(file, "JPEG", quality=95)
            self.files.append(file.getvalue())

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with Image.open(io.BytesIO(self.files[index % len(self.files)])) as image:
            pixels = np.asarray(image)[::15, ::15]
        return torch.from_numpy(pixels / 255.0).float() + torch.rand(1), index % 10


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random.seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24 * 32 * 3, 10), torch.nn.Dropout(0.2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Photos(480), batch_size=8, shuffle=True, num_workers=2)
    seen = hashlib.sha256()
    loss = torch.zeros(())
    for epoch in range(2):
        for images, labels in loader:
            seen.update(images.numpy().tobytes() + labels.numpy().tobytes())
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item().hex(), seen.hexdigest(), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()

"""One case of `normalising.py`: loads a fixed number of batches, and prints its rate, its CPU time and its page faults.

The cases of PyTorch's DataLoader split what normalising adds into its parts: the arithmetic, and the hand-over of four
times as many bytes from a worker's process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH, SIZE = 32, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHAPE = (BATCH, 3, SIZE, SIZE)


def in_batches(folder: str, count: int) -> list[list[str]]:
    """Return the paths of so many batches, over and over the same photos."""
    paths = sorted(map(str, Path(folder).glob("*.jpg")))
    return [[paths[(at * BATCH + each) % len(paths)] for each in range(BATCH)] for at in range(count)]


def by_pytorch(photos: list[list[str]], workers: int, case: str) -> Iterator[Any]:
    """Load with PyTorch's DataLoader and Pillow, as `loaders.py` does."""
    import numpy as np  # noqa: PLC0415 - each process has only its own library.
    import torch  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415
    from torch.utils.data import DataLoader, default_collate  # noqa: PLC0415

    torch.set_num_threads(1)
    mean, std = (torch.tensor(values).view(3, 1, 1) * 255 for values in (MEAN, STD))

    class Photos:
        def __len__(self) -> int:
            return len(photos) * BATCH

        def __getitem__(self, index: int) -> Any:
            with Image.open(photos[index // BATCH][index % BATCH]) as file:
                image = file.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(image))

    def normalised(batch: Any) -> Any:
        return batch.permute(0, 3, 1, 2).float().sub_(mean).div_(std)

    def collate(items: list[Any]) -> Any:
        batch = default_collate(items)
        if case == "bytes":
            return batch
        if case == "floats of any value":  # Handed over, but not computed.
            return torch.empty(SHAPE)
        floats = normalised(batch)
        return floats if case == "floats" else batch  # Else computed, but not handed over.

    dataset: Any = Photos()
    loader = DataLoader[Any](dataset, BATCH, num_workers=workers, multiprocessing_context="fork", collate_fn=collate)
    yield from loader


def by_us(photos: list[list[str]], workers: int, case: str) -> Iterator[Any]:
    """Load with one call for a batch, in threads."""
    import numpy as np  # noqa: PLC0415

    from spdl.io import load_image_batch, to_numpy  # noqa: PLC0415

    how: dict[str, Any] = {"width": SIZE, "height": SIZE, "mode": "stretch", "interpolation": "bilinear"}
    if case == "floats":
        how |= {"layout": "NCHW", "dtype": "float32", "mean": MEAN, "std": STD}
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) * 255 for values in (MEAN, STD))

    def load(paths: list[str]) -> Any:
        batch = to_numpy(load_image_batch(paths, **how))
        if case != "floats, by numpy":
            return batch
        floats = batch.transpose(0, 3, 1, 2).astype(np.float32, order="C")
        floats -= mean
        floats /= std
        return floats

    with ThreadPoolExecutor(workers) as pool:
        under_way: deque[Any] = deque()
        for paths in photos:
            under_way.append(pool.submit(load, paths))
            if len(under_way) > workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


LOADERS: dict[str, Callable[[list[list[str]], int, str], Iterator[Any]]] = {"pytorch": by_pytorch, "ours": by_us}


def main() -> None:
    """Load all batches, of which the first few are not timed."""
    arguments = json.loads(sys.argv[1])
    warm_up, count = 8, arguments["batches"]
    batches = LOADERS[arguments["loader"]](
        in_batches(arguments["folder"], warm_up + count), arguments["workers"], arguments["case"]
    )
    for _ in range(warm_up):
        next(batches)
    begun = time.perf_counter()
    taken = sum(1 for _ in batches)
    seconds = time.perf_counter() - begun
    # The workers have ended, so their usage counts. That includes the warm-up, and the imports of this process.
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    images = (warm_up + taken) * BATCH
    print(
        json.dumps(
            {
                "images_per_second": taken * BATCH / seconds,
                "user_ms_per_image": 1e3 * sum(each.ru_utime for each in usage) / images,
                "system_ms_per_image": 1e3 * sum(each.ru_stime for each in usage) / images,
                "page_faults_per_image": sum(each.ru_minflt for each in usage) / images,
            }
        )
    )


if __name__ == "__main__":
    main()

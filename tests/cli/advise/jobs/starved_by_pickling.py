"""Train on documents that are trees of Python objects, which worker processes pickle and the loop unpickles."""

import hashlib
import random
from typing import Any

import torch.utils.data


class Documents:
    def __init__(self, size: int) -> None:
        self.documents = [
            [{"word": f"word{number}", "place": (number, index)} for number in range(1500)] for index in range(size)
        ]

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> Any:
        return self.documents[index]


def keep(documents: list[Any]) -> list[Any]:
    return documents


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    loader = torch.utils.data.DataLoader(
        Documents(24), batch_size=4, num_workers=2, collate_fn=keep, sampler=list(range(24)) * 6
    )
    seen = hashlib.sha256()
    for epoch in range(2):
        for documents in loader:
            seen.update("".join(document[epoch]["word"] for document in documents).encode())
        print(epoch, seen.hexdigest(), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()

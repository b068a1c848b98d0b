"""A tokenizer in Python, in one worker: only more processes make it faster."""

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "CPU": "An item is Python code of the dataset itself, in one worker.",
    },
}


class Sentences:
    def __init__(self):
        self.text = "the loop waits for its data, and the data waits for nobody " * 200

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        tokens, word = [], 0
        for letter in self.text:
            if letter.isalpha():
                word = (word * 31 + ord(letter) + index) % 50_021
            elif word:
                tokens.append(word)
                word = 0
        return torch.tensor(tokens[:256])


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(DataLoader(Sentences(), batch_size=8, num_workers=1), torch.sum)

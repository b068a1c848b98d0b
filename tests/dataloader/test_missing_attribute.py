"""What PyTorch's loader has and a ready-made one has not is an error that says what to do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from spdl.dataloader import ArrayLoader, DataLoader

LOADERS: list[Any] = [DataLoader(range(3)), ArrayLoader([b"", b""], 1)]


@pytest.mark.parametrize("loader", LOADERS, ids=["DataLoader", "ArrayLoader"])
def test_parts_of_pytorchs_loader_are_not_there_and_it_is_said_why(loader: Any) -> None:
    for name in ("sampler", "batch_sampler", "collate_fn"):
        assert not hasattr(loader, name)
        with pytest.raises(
            AttributeError, match=f"no attribute '{name}': .*load_state_dict.* use PyTorchDataLoader"
        ) as raised:
            getattr(loader, name)
        assert (raised.value.name, raised.value.obj) == (name, loader)


@pytest.mark.parametrize("loader", LOADERS, ids=["DataLoader", "ArrayLoader"])
def test_other_names_are_not_there_as_usual(loader: Any) -> None:
    with pytest.raises(AttributeError, match=rf"^{type(loader).__name__} has no attribute 'epochs'$"):
        _ = loader.epochs
    copy.copy(loader)

"""The common part of the loaders of labelled media: how their media are read, and batches of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from spdl.dataloader._loader.epoch_loader import Batch
from spdl.dataloader._loader.labelled_batches import LabelledBatch
from spdl.dataloader._loader.sample_loader import OnError, SampleLoader
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.batch_maker import BatchMaker, Pad
from spdl.source import EpochOrder

if TYPE_CHECKING:
    from spdl.dataloader._media.target_reader import TargetReader


class MediaReader(abc.ABC):
    """Reads the media of the samples of a batch. Several threads call it at once."""

    media: ClassVar[str]
    """The name of the media in messages."""
    batch_type: ClassVar[type[LabelledBatch]]
    """The class of batches."""
    column: ClassVar[str] = "media"
    """The field of samples that holds what is read."""
    targets: TargetReader | None = None
    """What moves with the media; None if nothing does."""

    @abc.abstractmethod
    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load the media of some samples.

        Args:
            columns: The fields of the samples by their names.
            epoch: The number of the epoch.
            num_threads: How many threads may share the work.

        Returns:
            New numpy arrays by the names of their fields, with a place for each sample; and the places and reasons of
            failures, which hold zeros.

        Raises:
            LoadError: If all fail, and the shapes of their arrays are not known.
        """

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:  # noqa: ARG002 - for those that do.
        """Return why a sample makes no sense, so that `read` cannot be asked for it; None if it does.

        Args:
            columns: The fields of the samples by their names.
            place: The sample's place in them.
        """
        return None

    def convert(
        self,
        results: list[Any],
        fields: dict[str, Any],  # noqa: ARG002 - for those that do.
        names: Sequence[str],  # noqa: ARG002
        num_threads: int,  # noqa: ARG002
        *,
        alone: bool,  # noqa: ARG002
    ) -> Any:
        """Return what a `transform` returned in the format of batches.

        Args:
            results: The transform's results, one for each sample.
            fields: The other fields of the batch.
            names: The names of the samples in messages.
            num_threads: How many threads may share the work.
            alone: Whether these are whole results, and not parts of records or tuples.

        Raises:
            TypeError, ValueError: If a result cannot get that format.
        """
        return results

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:  # noqa: ARG002 - for those that do.
        """Change the fields of a whole batch, which are numpy arrays and lists."""
        return fields


class MediaLoader(SampleLoader[Batch]):
    """The base of `ImageLoader` and its relatives, which document the arguments."""

    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        reader: MediaReader,
        *,
        order: EpochOrder | None,
        seed: int,
        on_error: OnError,
        transform: Callable[..., Any] | None,
        batch_transform: Callable[[Any], Any] | None,
        pad: Pad = None,
        output: OutputKind,
        **others: Any,
    ) -> None:
        def make_maker() -> BatchMaker:
            return BatchMaker(
                source,
                reader,
                order=order,
                seed=self._seed,
                on_error=on_error,
                transform=transform,
                batch_transform=batch_transform,
                pad=pad,
                output=output,
            )

        super().__init__(
            source,
            batch_size,
            reader.media,
            make_maker,
            order=order,
            seed=seed,
            on_error=on_error,
            transform=transform,
            batch_transform=batch_transform,
            output=output,
            **others,
        )

from pathlib import Path

import pytest
from tests.observe.export.observed import stage, told

from spdl.observe import TensorBoardScalars


class Writer:
    def __init__(self) -> None:
        self.written: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.written.append((tag, scalar_value, global_step))

    def take(self) -> dict[str, float]:
        written, self.written = self.written, []
        assert len({tag for tag, _, _ in written}) == len(written)
        return {tag: value for tag, value, _ in written}


def counts(elapsed: float, items: int) -> tuple[object, ...]:
    return (
        stage("src", num_emitted=items, busy_seconds=elapsed / 4),
        stage(
            "decode",
            concurrency=2,
            num_emitted=items,
            num_failed=items // 10,
            busy_seconds=elapsed,
            queue_size=1,
            queue_capacity=2,
        ),
        stage("sink", num_emitted=items, starved_seconds=elapsed / 2, queue_size=3, queue_capacity=4),
    )


def test_rates_are_those_of_the_time_between_two_steps() -> None:
    writer = Writer()
    observed = told(*counts(2.0, 100), elapsed=2.0)  # type: ignore[arg-type]
    scalars = TensorBoardScalars({"train": observed}, writer)
    scalars.write(10)
    assert writer.take() == {
        "train/items_per_second": 50,
        "train/consumer_wait": 0.5,
        "train/0 src/items_per_second": 50,
        "train/0 src/busy": 0.25,
        "train/0 src/failures": 0,
        "train/1 decode/items_per_second": 50,
        "train/1 decode/busy": 0.5,
        "train/1 decode/queue": 1,
        "train/1 decode/failures": 10,
        "train/2 sink/queue": 3,
    }

    # Four times as quick as before.
    observed.now = told(*counts(3.0, 300), elapsed=3.0).now  # type: ignore[arg-type]
    scalars.write(20)
    assert {step for _, _, step in writer.written} == {20}
    later = writer.take()
    assert later["train/items_per_second"] == later["train/1 decode/items_per_second"] == 200
    assert later["train/1 decode/failures"] == 20
    assert later["train/consumer_wait"] == 0.5


def test_a_new_epoch_of_a_loader_counts_from_0_again() -> None:
    writer = Writer()
    observed = told(*counts(8.0, 100), elapsed=8.0)  # type: ignore[arg-type]
    scalars = TensorBoardScalars(observed, writer)
    scalars.write(1)
    observed.now = told(*counts(1.0, 70), elapsed=1.0).now  # type: ignore[arg-type]
    writer.take()
    scalars.write(2)
    assert writer.take()["pipeline/items_per_second"] == 70


def test_two_steps_at_once_and_one_before_the_start_divide_by_nothing() -> None:
    writer = Writer()
    observed = told(*counts(0.0, 0), elapsed=0.0)  # type: ignore[arg-type]
    scalars = TensorBoardScalars(observed, writer)
    scalars.write(1)
    scalars.write(1)
    assert {value for tag, value, _ in writer.written if "queue" not in tag} == {0}


def test_stages_of_the_same_name_have_different_tags() -> None:
    writer = Writer()
    TensorBoardScalars(told(stage("src"), stage("same"), stage("same"), stage("sink")), writer).write(1)
    assert "pipeline/2 same/failures" in writer.take()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="`writer` must be an object with `add_scalar`"):
        TensorBoardScalars(told(stage("sink")), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`step` must be"):
        TensorBoardScalars(told(stage("sink")), Writer()).write("1")  # type: ignore[arg-type]


def test_tensorboard_reads_what_its_writer_has_written(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="needs PyTorch and tensorboard")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = tensorboard.SummaryWriter(str(tmp_path))
    observed = told(*counts(2.0, 100), elapsed=2.0)  # type: ignore[arg-type]
    scalars = TensorBoardScalars(observed, writer)
    scalars.write(1)
    observed.now = told(*counts(4.0, 400), elapsed=4.0).now  # type: ignore[arg-type]
    scalars.write(2)
    writer.close()
    events = reader.EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("pipeline/items_per_second")]
    assert found == [(1, 50.0), (2, 150.0)]

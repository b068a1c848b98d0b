"""tf.data with TensorFlow's own decoder and resize."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

# TensorFlow's messages at the start are about GPUs.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf
from measure import BATCH, SIZE
from steps import MEAN, STD

if TYPE_CHECKING:
    from collections.abc import Iterator


def load(path: Any) -> Any:
    """Read, decode and resize by area averaging, which takes half the time of its antialiased bilinear filter."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.cast(tf.round(tf.image.resize(image, (SIZE, SIZE), method="area")), tf.uint8)


def normalise(batch: Any) -> Any:
    """Make floats, with channels before rows."""
    planes = tf.transpose(tf.cast(batch, tf.float32), (0, 3, 1, 2))
    means, deviations = (tf.reshape(255 * tf.constant(values), (3, 1, 1)) for values in (MEAN, STD))
    return (planes - means) / deviations


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Map over the photos, batch, and read ahead."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = workers
    options.threading.max_intra_op_parallelism = 1
    dataset = tf.data.Dataset.from_tensor_slices(paths).repeat().map(load, num_parallel_calls=workers)
    if step != "decode":
        dataset = dataset.batch(BATCH, drop_remainder=True)
    if step == "normalise":
        dataset = dataset.map(normalise, num_parallel_calls=workers)
    dataset = dataset.prefetch(BATCH if step == "decode" else 2).with_options(options)
    yield dataset.as_numpy_iterator()

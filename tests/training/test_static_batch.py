from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from vrtspike.deblurring.data.clips.batch import Clip
from vrtspike.deblurring.task import PreparedBatch
from vrtspike.training.static_batch import batch_kind, batch_tensors


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Box:
    inner: Any


X = torch.zeros(2, 3)


def test_tensors_come_in_the_order_of_their_places():
    a, b, c, d = (torch.full((), float(n)) for n in range(4))
    batch = {"x": [a, (b, None)], "box": Box({"deep": Pair(c, d)}), "name": "clip", "n": 3}
    assert [float(t) for t in batch_tensors(batch)] == [0.0, 1.0, 2.0, 3.0]


def test_clips_of_equal_sizes_are_of_one_kind_whatever_a_teacher_added():
    def clip(frames: int, *, spikes: bool = True) -> PreparedBatch:
        pictures = torch.rand(1, frames, 3, 8, 8)
        return PreparedBatch(Clip(pictures, pictures.clone(), pictures if spikes else None))

    one, other = clip(2), clip(2)
    assert batch_kind(one) == batch_kind(other) is not None
    assert batch_kind(one) != batch_kind(clip(3))
    assert batch_kind(one) != batch_kind(clip(2, spikes=False))
    other.guide = torch.ones(1)
    assert batch_kind(one) != batch_kind(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": X}, {"y": X}),
        ({"x": X}, {"x": X, "y": X}),
        ({"x": X}, {"x": torch.zeros(3, 2)}),
        ({"x": X}, {"x": torch.zeros(3, 2).mT}),
        ({"x": X}, {"x": X.double()}),
        ({"x": X}, {"x": X.to("meta")}),
        ({"x": X}, {"x": torch.zeros(2, 3, requires_grad=True)}),
        ({"x": X, "n": 1}, {"x": X, "n": 2}),
        ({"n": 1}, {"n": True}),
        ([X], (X,)),
        ([], ()),
        ({"x": []}, {}),
        ({"x": {}}, {}),
        (Box(X), [X]),
        (Pair(X, X), (X, X)),
        ([[X], X], [[X, X]]),
    ],
)
def test_batches_that_cannot_take_each_others_place(one, other):
    assert batch_kind(one) != batch_kind(other)
    assert hash(batch_kind(one)) == hash(batch_kind(one))


@pytest.mark.parametrize(
    "batch", [object(), {"x": X, "more": {1, 2}}, [lambda: X], Box(Box(set()))]
)
def test_what_cannot_be_looked_into_is_of_no_kind(batch):
    assert batch_kind(batch) is None

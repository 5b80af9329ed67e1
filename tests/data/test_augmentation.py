from __future__ import annotations

import itertools

import pytest
import torch

from vrtspike.data.augmentation import turned


@pytest.mark.parametrize("shape", [(2, 5, 7, 3), (2, 4, 5, 7), (1, 300, 6, 3)])
@pytest.mark.parametrize(
    ("rows", "columns", "swap"), list(itertools.product((False, True), repeat=3))[1:]
)
def test_the_same_as_flip_and_transpose(shape, rows, columns, swap):
    values = torch.randint(0, 256, shape, dtype=torch.uint8)
    first = 1 if shape[-1] == 3 else 2
    axes = [axis for axis, wanted in ((first, rows), (first + 1, columns)) if wanted]
    expected = values.flip(axes)
    if swap:
        expected = expected.transpose(first, first + 1)
    result = turned(values, first, rows, columns, swap)
    assert torch.equal(result, expected)
    assert result.is_contiguous()

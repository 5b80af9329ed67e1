"""What a training of a preset takes of memory, counted on a region without land."""

from __future__ import annotations

from functools import cache

import torch

from vrtspike.sst.grid import Grid
from vrtspike.sst.models import make_model
from vrtspike.sst.settings import SSTSettings
from vrtspike.training.saved_memory import saved_bytes, weight_bytes

GIB = 2**30


@cache
def count_memory(settings: SSTSettings) -> tuple[float, float]:
    """GiB of weights, gradients and moments, and GiB for each sample of a micro-step.

    In float32; half precision takes less.

    Args:
        settings: of the preset; its data need not be there.
    """
    data = settings.DATA
    shape = Grid(data.AREA.area, data.RESOLUTION).shape
    model = make_model(settings.MODEL, shape, data.SEQ_LEN, data.LEAD).train()

    def saved(samples: int) -> int:
        past = torch.zeros(samples, data.SEQ_LEN, *shape)
        month = torch.zeros(samples, dtype=torch.long)
        return saved_bytes(model, lambda: model(past, month).square().mean())

    one = saved(1)
    each = saved(2) - one
    return (weight_bytes(model) + one - each) / GIB, each / GIB

from __future__ import annotations

import pytest
import torch

from tests.training.forecast import Waves
from vrtspike.deblurring.settings import Settings
from vrtspike.training.batches import LoaderOptions, ShuffledBatches, ValidationBatches
from vrtspike.training.distributed import Ranks
from vrtspike.training.loading import loader_options


@pytest.mark.parametrize(
    ("device", "asked", "pinned"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)],
)
def test_batches_for_a_gpu_come_from_page_locked_memory(device, asked, pinned):
    settings = Settings.model_validate({"DATALOADER": {"PIN_MEMORY": asked}})
    ranks = Ranks(0, 0, 1, 1, torch.device(device))
    assert loader_options(settings, 3, 2, ranks) == LoaderOptions(3, 2, pinned, False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("workers", [0, 1])
def test_tensors_of_a_batch_are_page_locked(workers):
    options = LoaderOptions(workers, 2, pin_memory=True)
    training = ShuffledBatches(Waves(2), 2, 0, options=options).stream(0, 1, 1)
    for batches in (training, ValidationBatches(Waves(2), 2, options=options)):
        (batch,) = batches
        assert all(value.is_pinned() for value in batch.values())

"""The batches of a data set, as the settings of a run say."""

from __future__ import annotations

from vrtspike.config.run_schema import RunSettings
from vrtspike.training.batches import (
    LoaderOptions,
    ShuffledBatches,
    SizedDataset,
    ValidationBatches,
)
from vrtspike.training.distributed import Ranks
from vrtspike.training.workers import Workers


def training_batches(
    dataset: SizedDataset, settings: RunSettings, workers: Workers, ranks: Ranks
) -> ShuffledBatches:
    """The shuffled batches of a data set for one process.

    Args:
        dataset: the training samples.
        settings: of the run.
        workers: of this machine.
        ranks: the processes of the run.
    """
    loader = settings.DATALOADER
    return ShuffledBatches(
        dataset,
        settings.TRAIN.BATCH_SIZE,
        settings.SEED,
        loader.DROP_LAST,
        loader_options(settings, workers.train, loader.TRAIN_PREFETCH_FACTOR, ranks),
        block=loader.SHUFFLE_BLOCK,
    )


def validation_batches(
    dataset: SizedDataset, settings: RunSettings, workers: Workers, ranks: Ranks
) -> ValidationBatches:
    """The part of a data set that one process validates on.

    Args:
        dataset: the validation samples.
        settings: of the run.
        workers: of this machine.
        ranks: the processes of the run.
    """
    loader = settings.DATALOADER
    options = loader_options(
        settings,
        workers.val,
        loader.VAL_PREFETCH_FACTOR,
        ranks,
        persistent=loader.PERSISTENT_WORKERS,
    )
    size = settings.TRAIN.VAL_BATCH_SIZE
    return ValidationBatches(dataset, size, ranks.rank, ranks.world_size, options)


def loader_options(
    settings: RunSettings, workers: int, prefetch: int, ranks: Ranks, *, persistent: bool = False
) -> LoaderOptions:
    """How a data loader works, as DATALOADER says."""
    pin = settings.DATALOADER.PIN_MEMORY and ranks.device.type == "cuda"
    return LoaderOptions(workers, prefetch, pin, persistent)

"""A preset of the sea surface temperature as a problem for the training loop."""

from __future__ import annotations

from vrtspike.runs.identity import RunIdentity
from vrtspike.sst.models import build_model
from vrtspike.sst.prepared import open_split, sst_settings
from vrtspike.sst.task import SSTTask
from vrtspike.training.distributed import Ranks
from vrtspike.training.loading import training_batches, validation_batches
from vrtspike.training.one_process import Trainable
from vrtspike.training.workers import Workers


def build_preset(run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
    """Model, task and batches of a run, for one of its processes.

    Raises:
        UserError: if the data cannot be used.
    """
    settings = sst_settings(run.settings)
    samples = open_split(settings, run.dataset, "train")
    held_out = open_split(settings, run.dataset, "val")
    model = build_model(settings.MODEL, samples.store, samples.seq_len, samples.lead)
    tokens = getattr(model, "tokens", None)
    return Trainable(
        model.to(ranks.device),
        SSTTask.of_store(samples.store, samples.offset),
        training_batches(samples, settings, workers, ranks),
        validation_batches(held_out, settings, workers, ranks),
        note="" if tokens is None else f"{len(tokens)} patches of sea as tokens",
    )

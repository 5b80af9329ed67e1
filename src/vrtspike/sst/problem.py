"""Interface of sea surface temperatures to the pipeline, see :mod:`vrtspike.config.problems`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vrtspike.io.files import json_digest
from vrtspike.io.manifests import read_manifest
from vrtspike.runs.names import weights_file
from vrtspike.sst.settings import METRICS as METRICS
from vrtspike.sst.settings import PREPARED, SSTSettings

if TYPE_CHECKING:
    from vrtspike.analysis.evaluation_files import EvaluationJob
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
    from vrtspike.training.distributed import Ranks
    from vrtspike.training.tasks import Trainable
    from vrtspike.training.workers import Workers

SETTINGS = SSTSettings
OWN_STAGES = False


def data_folder(settings: SSTSettings) -> str:
    """Region and resolution, and a digest of all that makes these data others."""
    data = settings.DATA
    told = f"sst_{data.AREA.NAME}_{data.RESOLUTION:g}"
    digest = json_digest([data.ROOT, data_settings(settings)])[:6]
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '_', told)}_{digest}"


def data_files(settings: SSTSettings) -> Sequence[Path]:
    """The downloaded files; none where they are generated.

    Raises:
        DataError: if there are none.
    """
    from vrtspike.sst.reading import find_files

    return () if settings.DATA.GENERATE else find_files(settings.DATA.ROOT)


def data_settings(settings: SSTSettings) -> Mapping[str, Any]:
    """Region, resolution, years, and what is generated."""
    decisive = {"AREA", "RESOLUTION", "YEARS", "GENERATE"}
    return settings.DATA.model_dump(mode="json", include=decisive)


def prepare(settings: SSTSettings, manifest: Path, show: Callable[[str], None]) -> None:
    """Generate a globe if that is asked for, and write the store of region and resolution.

    Raises:
        UserError: if the files cannot be used.
    """
    from vrtspike.sst.generate import Globe, write_example
    from vrtspike.sst.store import prepare as prepare_store

    data, root = settings.DATA, Path(settings.DATA.ROOT)
    if asked := data.GENERATE:
        globe = Globe(years=asked.YEARS, seed=asked.SEED, anomalies=asked.ANOMALIES)
        root = write_example(manifest.parent / "generated", globe)
    store = prepare_store(root, data.AREA.area, data.RESOLUTION, manifest, data.YEARS)
    found, (rows, columns) = store.manifest, store.grid.shape
    show(
        f"{found['months']} months of {found['sea_cells']} cells of sea, {rows} x {columns}; "
        f"{len(store.years.months('train'))} of them to train; years {store.years}; missing, and "
        f"left out with their samples: {', '.join(found['missing']) or 'none'}"
    )


def dataset_digest(manifest: Path) -> str:
    """The digest of the contents of a store.

    Raises:
        DataError: if there is no such manifest, or none of this version.
    """
    return str(read_manifest(manifest, PREPARED)["digest"])


def open_split(settings: SSTSettings, manifest: str | Path, split: str) -> ERA5SSTMonthlyDataset:
    """The samples of a split.

    Raises:
        DataError: if the data are not there, or the split is shorter than a sample.
    """
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset

    data = settings.DATA
    return ERA5SSTMonthlyDataset(
        data.SEQ_LEN, data.OFFSET, lead=data.LEAD, split=split, store=manifest
    )


def check_data(manifest: Path, settings: SSTSettings) -> None:
    """Refuse years that are shorter than a sample.

    Raises:
        DataError: naming split, years and months.
    """
    for split in ("train", "val", settings.TEST.SPLIT):
        open_split(settings, manifest, split)


def training_weights(settings: SSTSettings) -> dict[str, Path]:
    """The weights that a training starts from."""
    if settings.MODEL.PRETRAINED is None:
        return {}
    return {"MODEL.PRETRAINED": weights_file(Path(settings.MODEL.PRETRAINED))}


def evaluation_weights(settings: SSTSettings) -> dict[str, Path]:
    """None."""
    return {}


@cache
def memory(settings: SSTSettings) -> tuple[float, float]:
    """GiB of a training in float32: by itself, and for each sample of a micro-step.

    By itself are weights, gradients and two moments of the optimiser. The region is counted as all
    sea: land makes fewer tokens. Half precision needs less.
    """
    import torch

    from vrtspike.monitoring.memory import working_bytes
    from vrtspike.sst.grid import Grid
    from vrtspike.sst.model import build_model

    data, model = settings.DATA, build_model(settings).train()
    past = torch.zeros(1, data.SEQ_LEN, *Grid(data.AREA.area, data.RESOLUTION).shape)
    month = torch.zeros(1, dtype=torch.long)
    state = 4 * 4 * sum(parameter.numel() for parameter in model.parameters())
    working = working_bytes(model, (past,), lambda: model(past, month).square().mean())
    return state / 2**30, working / 2**30


def statistics(settings: SSTSettings, manifest: Path) -> Mapping[str, Any]:
    """Coordinates of the cells of a store, and the years of its climatology and deviation.

    Raises:
        DataError: if the data are not there.
    """
    found = read_manifest(manifest, PREPARED)
    told = {name: found[name] for name in ("area", "resolution", "years", "sea_cells")}
    return {"dataset": manifest.parent.name, "dataset_digest": found["digest"], **told}


def build(run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
    """Model, task and batches of a run, for one of its processes.

    Raises:
        UserError: if the data, or the weights it starts from, cannot be used.
    """
    from vrtspike.io.weights import load_trained
    from vrtspike.sst.dataset import SSTTask
    from vrtspike.sst.model import build_model
    from vrtspike.training.batches import NoBatches, ShuffledBatches, ValidationBatches
    from vrtspike.training.tasks import Trainable

    settings = cast("SSTSettings", run.settings)
    samples = open_split(settings, run.dataset, "train")
    held_out = open_split(settings, run.dataset, "val")
    left = samples.left_out + held_out.left_out
    model = build_model(settings, samples.store)
    if settings.MODEL.PRETRAINED is not None:
        load_trained(model, training_weights(settings)["MODEL.PRETRAINED"])
    trains = settings.kept_start is None
    return Trainable(
        model.to(ranks.device),
        SSTTask(samples.store.weights, samples.store.fields["deviation"], samples.offset),
        ShuffledBatches(samples, settings, workers, ranks) if trains else NoBatches(),
        ValidationBatches(held_out, settings, workers, ranks) if trains else None,
        note=f"{left} samples with missing months left out" if left else "",
    )


def evaluate(job: EvaluationJob) -> list[str]:
    """Scores beside every baseline, with intervals; maps of error.

    Raises:
        DataError: if the data are missing or too short.
        RunError: if the weights belong to another model, or were changed.
    """
    from vrtspike.io.weights import load_trained
    from vrtspike.runs.published import require_published
    from vrtspike.sst.evaluate import evaluate, write_results
    from vrtspike.sst.model import build_model

    settings = cast("SSTSettings", job.run.settings)
    samples = open_split(settings, job.dataset, settings.TEST.SPLIT)
    model = build_model(settings, samples.store)
    load_trained(model, job.weights)
    require_published(job.weights)
    started = time.monotonic()
    model.to(job.device)
    found = evaluate(model, samples, job.device, settings.TEST.BATCH_SIZE, job.progress)
    seconds = (time.monotonic() - started) / (len(samples) * samples.lead)
    return write_results(job, found, device=job.device.type, seconds_per_frame=seconds)

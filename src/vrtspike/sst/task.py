"""Interface of sea surface temperatures to the pipeline, see :mod:`vrtspike.config.tasks`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vrtspike.io.files import json_digest
from vrtspike.io.manifests import read_manifest
from vrtspike.runs.file_names import weights_file
from vrtspike.sst.settings import METRICS as METRICS
from vrtspike.sst.settings import PREPARED, GenerateSettings, SSTSettings

if TYPE_CHECKING:
    from vrtspike.runs.evaluation_job import EvaluationJob
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
    from vrtspike.sst.generate import Globe
    from vrtspike.training.distributed import DistributedContext
    from vrtspike.training.objectives import TrainingParts
    from vrtspike.training.workers import WorkerCounts

SETTINGS = SSTSettings


def data_folder(settings: SSTSettings) -> str:
    """Name the folder of the data by region, resolution, and a digest of all their settings."""
    data = settings.DATA
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", f"sst_{data.AREA.NAME}_{data.RESOLUTION:g}")
    digest = json_digest([data.ROOT, data_settings(settings)])[:6]
    return f"{name}_{digest}"


def data_files(settings: SSTSettings) -> Sequence[Path]:
    """Return the downloaded files; none where they are generated.

    Raises:
        DataError: if there are none.
    """
    from vrtspike.sst.downloads import find_files

    if settings.DATA.GENERATE:
        return ()
    return find_files(settings.DATA.ROOT)


def data_settings(settings: SSTSettings) -> Mapping[str, Any]:
    """Return region, resolution, years, and what is generated."""
    result_keys = {"AREA", "RESOLUTION", "YEARS", "GENERATE"}
    return settings.DATA.model_dump(mode="json", include=result_keys)


def prepare(settings: SSTSettings, manifest_path: Path, show: Callable[[str], None]) -> None:
    """Write the store of region and resolution, from files or a generated globe.

    Raises:
        UserError: if the files cannot be used.
    """
    from vrtspike.sst.generate import write_example
    from vrtspike.sst.preparation import prepare as prepare_store

    data = settings.DATA
    root = Path(data.ROOT)
    if data.GENERATE:
        root = write_example(manifest_path.parent / "generated", _globe(data.GENERATE))
    store = prepare_store(
        root, data.AREA.area, data.RESOLUTION, manifest_path, data.YEARS, show=show
    )
    manifest = store.manifest
    rows, columns = store.grid.shape
    show(
        f"{manifest['months']} months of {manifest['sea_cells']} cells of sea, {rows} x {columns}; "
        f"{len(store.years.months('train'))} of them to train; years {store.years}; missing, and "
        f"left out with their samples: {', '.join(manifest['missing']) or 'none'}"
    )


def _globe(settings: GenerateSettings) -> Globe:
    from vrtspike.sst.generate import Globe

    return Globe(years=settings.YEARS, seed=settings.SEED, anomalies=settings.ANOMALIES)


def dataset_digest(manifest_path: Path) -> str:
    """Return the digest of the contents of a store.

    Raises:
        DataError: if the manifest is missing or of another version.
    """
    return str(read_manifest(manifest_path, PREPARED)["digest"])


def open_split(settings: SSTSettings, manifest: str | Path, split: str) -> ERA5SSTMonthlyDataset:
    """Open the samples of a split.

    Raises:
        DataError: if the data are not there, or the split is shorter than a sample.
    """
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset

    data = settings.DATA
    return ERA5SSTMonthlyDataset(
        data.SEQ_LEN, data.OFFSET, lead=data.LEAD, split=split, store=manifest
    )


def require_data(manifest_path: Path, settings: SSTSettings) -> None:
    """Reject years that are shorter than a sample.

    Raises:
        DataError: naming split, years and months.
    """
    for split in ("train", "val", settings.TEST.SPLIT):
        open_split(settings, manifest_path, split)


def training_weights(settings: SSTSettings) -> dict[str, Path]:
    """Return the weights that a training starts from."""
    if settings.MODEL.PRETRAINED is None:
        return {}
    return {"MODEL.PRETRAINED": weights_file(Path(settings.MODEL.PRETRAINED))}


def evaluation_weights(settings: SSTSettings) -> dict[str, Path]:
    """Return no weights: the metrics need none."""
    return {}


@cache
def memory(settings: SSTSettings) -> tuple[float, float]:
    """Return the GiB of a training in float32: fixed, and for each sample of a micro-step.

    Fixed are weights, gradients and two moments of the optimiser. The region counts as all sea:
    land makes fewer tokens. Half precision needs less.
    """
    import torch

    from vrtspike.monitoring.step_memory import working_bytes
    from vrtspike.sst.grid import Grid
    from vrtspike.sst.model import build_sst_model

    data = settings.DATA
    model = build_sst_model(settings).train()
    past = torch.zeros(1, data.SEQ_LEN, *Grid(data.AREA.area, data.RESOLUTION).shape)
    month = torch.zeros(1, dtype=torch.long)
    state = 4 * 4 * sum(parameter.numel() for parameter in model.parameters())
    working = working_bytes(model, (past,), lambda: model(past, month).square().mean())
    return state / 2**30, working / 2**30


def statistics(settings: SSTSettings, manifest_path: Path) -> Mapping[str, Any]:
    """Return the coordinates of a store's cells, and the years of its climatology.

    Raises:
        DataError: if the data are not there.
    """
    manifest = read_manifest(manifest_path, PREPARED)
    coverage = {name: manifest[name] for name in ("area", "resolution", "years", "sea_cells")}
    return {"dataset": manifest_path.parent.name, "dataset_digest": manifest["digest"], **coverage}


def build(run: RunIdentity, ranks: DistributedContext, workers: WorkerCounts) -> TrainingParts:
    """Build model, objective and batches of a run, for one of its processes.

    Raises:
        UserError: if the data, or the weights it starts from, cannot be used.
    """
    from vrtspike.io.weights import load_trained_weights
    from vrtspike.sst.model import build_sst_model
    from vrtspike.sst.objective import SSTObjective
    from vrtspike.training.batches import NoBatches, ShuffledBatches, ValidationBatches
    from vrtspike.training.objectives import TrainingParts

    settings = cast("SSTSettings", run.settings)
    samples = open_split(settings, run.dataset, "train")
    held_out = open_split(settings, run.dataset, "val")
    left_out = samples.left_out + held_out.left_out
    note = f"{left_out} samples with missing months left out" if left_out else ""
    model = build_sst_model(settings, samples.store)
    if settings.MODEL.PRETRAINED is not None:
        load_trained_weights(model, training_weights(settings)["MODEL.PRETRAINED"])
    model = model.to(ranks.device)
    objective = SSTObjective.from_dataset(samples)
    if settings.unchanged_weights is not None:
        return TrainingParts(model, objective, NoBatches(), None, note=note)
    training = ShuffledBatches(samples, settings, workers, ranks)
    validation = ValidationBatches(held_out, settings, workers, ranks)
    return TrainingParts(model, objective, training, validation, note=note)


def evaluate(job: EvaluationJob) -> list[str]:
    """Write scores and those of every baseline, with intervals, and maps of error.

    For generated data, the best possible forecast is added.

    Raises:
        DataError: if the data are missing or too short.
        RunError: if the weights belong to another model, or were changed.
    """
    from vrtspike.io.weights import load_trained_weights
    from vrtspike.runs.published import require_published
    from vrtspike.sst.evaluate import best_possible_forecasts
    from vrtspike.sst.evaluate import evaluate as evaluate_model
    from vrtspike.sst.model import build_sst_model
    from vrtspike.sst.results import write_forecast_results

    settings = cast("SSTSettings", job.run.settings)
    samples = open_split(settings, job.manifest_path, settings.TEST.SPLIT)
    model = build_sst_model(settings, samples.store)
    load_trained_weights(model, job.weights)
    require_published(job.weights)
    best = None
    if settings.DATA.GENERATE:
        best = best_possible_forecasts(_globe(settings.DATA.GENERATE), samples)
    evaluation = evaluate_model(
        model.to(job.device),
        samples,
        device=job.device,
        batch_size=settings.TEST.BATCH_SIZE,
        progress=job.progress,
        best_possible=best,
    )
    months = len(samples) * samples.lead
    return write_forecast_results(
        job,
        evaluation,
        {
            "device": job.device.type,
            "model_seconds_per_frame": evaluation.model_seconds / months,
        },
    )

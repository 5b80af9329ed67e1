"""What the sea surface temperature brings to the pipeline (:class:`vrtspike.problems.Problem`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.files import json_digest
from vrtspike.manifests import read_manifest
from vrtspike.sst.metrics import METRICS as METRICS
from vrtspike.sst.settings import SSTSettings
from vrtspike.sst.store import PREPARED

if TYPE_CHECKING:
    import torch

    from vrtspike.runs.identity import RunIdentity
    from vrtspike.runs.published import PublishedRun
    from vrtspike.training.distributed import Ranks
    from vrtspike.training.one_process import Trainable
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
    from vrtspike.sst.opening import find_files

    return () if settings.DATA.GENERATE else find_files(settings.DATA.ROOT)


def data_settings(settings: SSTSettings) -> Mapping[str, Any]:
    """Region, resolution, years, and what is generated."""
    dumped = settings.DATA.model_dump(mode="json")
    return {name: dumped[name] for name in ("AREA", "RESOLUTION", "YEARS", "GENERATE")}


def prepare(settings: SSTSettings, manifest: Path, tell: Callable[[str], None]) -> None:
    """Generate the files if that is asked for, and write the store of region and resolution.

    Raises:
        UserError: if the files cannot be used.
    """
    from vrtspike.sst.prepared import prepare_preset

    prepare_preset(settings, manifest, tell)


def dataset_digest(manifest: Path) -> str:
    """The digest of the contents of a store.

    Raises:
        DataError: if there is no such manifest, or none of this version.
    """
    return str(read_manifest(manifest, PREPARED)["digest"])


def check_data(manifest: Path, settings: SSTSettings) -> None:
    """Refuse years that are shorter than a sample.

    Raises:
        DataError: naming split, years and months.
    """
    from vrtspike.sst.prepared import open_split

    for split in ("train", "val", settings.TEST.SPLIT):
        open_split(settings, manifest, split)


def training_weights(settings: SSTSettings) -> dict[str, Path]:
    """None."""
    return {}


def evaluation_weights(settings: SSTSettings) -> dict[str, Path]:
    """None."""
    return {}


def memory(settings: SSTSettings) -> tuple[float, float]:
    """Counted with a region that is all sea: on land are fewer tokens."""
    from vrtspike.sst.memory import count_memory

    return count_memory(settings)


def statistics(run: RunIdentity) -> Mapping[str, Any]:
    """Where the cells lie and what their anomalies are divided by."""
    from vrtspike.sst.prepared import run_statistics

    return run_statistics(run)


def build(run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
    """Model, task and batches for one process of a training."""
    from vrtspike.sst.preset import build_preset

    return build_preset(run, ranks, workers)


def evaluate(
    weights: Path,
    run: PublishedRun,
    dataset: Path,
    output: Path,
    device: torch.device,
    progress: Callable[[int, int], None],
    *,
    error_map: bool,
) -> list[str]:
    """RMSE and anomaly correlation beside persistence and climatology; maps of error."""
    from vrtspike.sst.report import evaluate_preset

    return evaluate_preset(weights, run, dataset, output, device, progress)

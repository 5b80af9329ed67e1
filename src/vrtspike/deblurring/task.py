"""Deblurring as a task of the pipeline (:class:`vrtspike.config.tasks.Task`).

The rules from ``survey`` to ``statistics`` make its data. ``benchmarks/presets.py`` counts the
memory of its trainings, see :mod:`vrtspike.deblurring.training_cost`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.config.tasks import DEFAULT_PROTOCOL, FrameKeys
from vrtspike.data.manifests import DATASET
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.backbone_weights import BACKBONES
from vrtspike.io.manifests import read_manifest
from vrtspike.metrics.registry import METRICS as METRICS
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.named_models import pretrained_file

if TYPE_CHECKING:
    from vrtspike.analysis.diagnosis.task_advice import TaskAdvice
    from vrtspike.reporting.task_report import TaskReport
    from vrtspike.runs.evaluation_job import EvaluationJob
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.training.distributed import DistributedContext
    from vrtspike.training.objectives import TrainingParts
    from vrtspike.training.workers import WorkerCounts

SETTINGS = DeblurringSettings
FRAME_KEYS = FrameKeys(variants=("blur_dir",), encodings=("bins",))


def data_folder(settings: DeblurringSettings) -> str:
    """Return the folder of a data set and of the bins of its voxel grids."""
    return f"{settings.dataset_name}/k{settings.DATA.NUM_VOXEL_BINS}"


def dataset_digest(manifest_path: Path) -> str:
    """Return the digest over all stores of a data set.

    Raises:
        DataError: if there is no such manifest, or none of this version.
    """
    return read_manifest(manifest_path, DATASET)["digest"]


def require_data(manifest_path: Path, settings: DeblurringSettings) -> None:
    """Reject data that a training or its evaluation cannot use.

    Rejected are data without spikes if the model or its teacher needs them, with other voxels than
    those of the teacher or of the model that training starts from, without sequences to hold out,
    or with other blurry frames than those of a protocol.

    Raises:
        ConfigError: naming the data set, the teacher or the start, and the key.
        RunError: if the teacher or the start is damaged.
    """
    from vrtspike.data.clips.dataset_manifest import load_dataset
    from vrtspike.data.clips.requirements import require_spikes
    from vrtspike.deblurring.trained_models import require_fitting_start, require_fitting_teacher

    manifest = load_dataset(manifest_path)
    if settings.unchanged_weights is None:
        manifest.with_validation_split(settings.DATA)
    require_spikes(str(manifest_path), manifest.statistics is not None, settings)
    require_fitting_start(settings)
    if settings.TRAIN.DISTILL is not None:
        require_fitting_teacher(Path(settings.TRAIN.DISTILL.TEACHER), manifest, settings)
    for name in settings.TEST.PROTOCOL:
        if name != DEFAULT_PROTOCOL:
            # Imported here only, because it imports PyTorch.
            from vrtspike.evaluation.protocols import PROTOCOLS

            PROTOCOLS[name].require_blur(manifest.blur_dir, str(manifest_path))


def training_weights(settings: DeblurringSettings) -> dict[str, Path]:
    """Return the files of weights that a training reads, by key."""
    model = settings.MODEL
    files: dict[str, str | Path | None] = {}
    if model.PRETRAINED is not None:
        files["MODEL.PRETRAINED"] = pretrained_file(model.PRETRAINED)
    files |= model.network.weights
    if settings.TRAIN.DISTILL is not None:
        files["TRAIN.DISTILL.TEACHER"] = Path(settings.TRAIN.DISTILL.TEACHER) / WEIGHTS
    for name, term in settings.LOSS.active.items():
        if term.backbone is not None:
            files[f"LOSS.{name}"] = Path(settings.WEIGHTS.DIR) / BACKBONES[term.backbone]
    return {key: Path(path) for key, path in files.items() if path is not None}


def evaluation_weights(settings: DeblurringSettings) -> dict[str, Path]:
    """Return the files that an evaluation reads besides the trained weights, by key."""
    files = {}
    for name in settings.TEST.METRICS:
        backbone = METRICS[name].backbone
        if backbone is not None:
            files[f"TEST.METRICS: {name}"] = Path(settings.WEIGHTS.DIR) / BACKBONES[backbone]
    return files


def statistics(settings: DeblurringSettings, manifest_path: Path) -> Mapping[str, Any]:
    """Return the statistics that standardise the spikes of a run."""
    from vrtspike.data.clips.run_statistics import run_statistics

    return run_statistics(settings, manifest_path)


def build(run: RunIdentity, ranks: DistributedContext, workers: WorkerCounts) -> TrainingParts:
    """Build model, objective and batches for one process of a training."""
    from vrtspike.deblurring.training_parts import build_training_parts

    return build_training_parts(run, ranks, workers)


def evaluate(job: EvaluationJob) -> list[str]:
    """Restore the test split: metrics per frame and sequence, pictures, examples."""
    from vrtspike.evaluation.evaluate import evaluate_run
    from vrtspike.evaluation.summary import summary_lines

    return summary_lines(evaluate_run(job))


def advice(settings: DeblurringSettings) -> TaskAdvice:
    """Return the keys and words of deblurring in the advice on a run."""
    from vrtspike.deblurring.advice.run_advice import DeblurringAdvice

    return DeblurringAdvice(settings)


def page() -> TaskReport:
    """Return the words, columns and pictures of deblurring on the report page."""
    from vrtspike.deblurring.report import DeblurringReport

    return DeblurringReport()

"""The deblurring as a task of the pipeline (:class:`vrtspike.config.tasks.Task`).

The rules from ``survey`` to ``statistics`` make its data. ``benchmarks/presets.py`` counts the
memory of its trainings, see :mod:`vrtspike.deblurring.training_cost`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.config.tasks import OWN_PROTOCOL, FrameKeys
from vrtspike.data.manifests import DATASET
from vrtspike.io.backbone_weights import BACKBONES
from vrtspike.io.manifests import read_manifest
from vrtspike.metrics.registry import METRICS as METRICS
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.named_models import pretrained_file
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError

if TYPE_CHECKING:
    from vrtspike.analysis.advice.task_advice import TaskAdvice
    from vrtspike.analysis.evaluation_files import EvaluationJob
    from vrtspike.data.clips.dataset_manifest import DatasetManifest
    from vrtspike.reporting.task_page import TaskPage
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.training.distributed import Ranks
    from vrtspike.training.objectives import Trainable
    from vrtspike.training.workers import Workers

SETTINGS = Settings
FRAME_KEYS = FrameKeys(variants=("blur_dir",), encodings=("bins",))
TEACHER = "TRAIN.DISTILL.TEACHER"


def data_folder(settings: Settings) -> str:
    """Return the folder of a data set and of the bins of its voxel grids."""
    return f"{settings.dataset_name}/k{settings.DATA.NUM_VOXEL_BINS}"


def dataset_digest(manifest: Path) -> str:
    """Return the digest over all stores of a data set.

    Raises:
        DataError: if there is no such manifest, or none of this version.
    """
    return read_manifest(manifest, DATASET)["digest"]


def check_data(manifest: Path, settings: Settings) -> None:
    """Refuse data that a training or its evaluation cannot use.

    Refused are data without spikes if the model or its teacher needs them, with other voxels than
    those of the teacher or of the model that training starts from, without sequences to hold out,
    or with other blurry frames than those of a protocol.

    Raises:
        ConfigError: naming the data set, the teacher or the start, and the key.
        RunError: if the teacher or the start is damaged.
    """
    from vrtspike.data.clips.dataset_manifest import load_dataset
    from vrtspike.data.clips.requirements import require_spikes
    from vrtspike.deblurring.fine_tuning import require_fitting_pretrained

    dataset = load_dataset(manifest)
    if settings.untrained_weights is None:
        dataset.with_validation_split(settings.DATA)
    require_spikes(str(manifest), dataset.statistics is not None, settings)
    require_fitting_pretrained(settings)
    files = training_weights(settings)
    if TEACHER in files:
        _check_teacher(files[TEACHER].parent, manifest, dataset, settings)
    _check_protocols(dataset.blur_dir, manifest, settings)


def _check_teacher(
    folder: Path, manifest: Path, dataset: DatasetManifest, settings: Settings
) -> None:
    """Refuse a teacher that needs spikes or other voxels than the data set has.

    Args:
        folder: result folder of the teacher.
        manifest: path of the data set's manifest.
        dataset: contents of that manifest.
        settings: settings of the preset.

    Raises:
        ConfigError: naming the teacher, the keys and both values.
        RunError: if the statistics of the teacher are missing or damaged.
    """
    from vrtspike.data.clips.requirements import require_spikes
    from vrtspike.data.clips.run_statistics import training_statistics
    from vrtspike.deblurring.trained_voxels import TrainedVoxels
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.settings import deblurring_settings
    from vrtspike.settings.stores import StoreOptions

    teacher = deblurring_settings(RunIdentity.read(folder).settings)
    title = f"{manifest}, with {TEACHER} {folder}"
    require_spikes(title, dataset.statistics is not None, teacher)
    if not teacher.MODEL.USE_SPIKE:
        return
    statistics = training_statistics(settings, dataset)
    assert statistics is not None, "data and a start without spikes are refused"
    options = StoreOptions.of(settings.DATA)
    voxels = TrainedVoxels.read(folder, teacher)
    faults = voxels.differences(options, statistics.mean, statistics.std)
    if faults:
        raise ConfigError(
            f"{TEACHER} {folder}: {'; '.join(faults)}. They must be equal: set these keys to its "
            "values, or choose another teacher"
        )


def _check_protocols(blur_dir: str, manifest: Path, settings: Settings) -> None:
    """Refuse data with other blurry frames than those of a protocol of the evaluation.

    Raises:
        ConfigError: naming the protocol.
    """
    names = [name for name in settings.TEST.PROTOCOL if name != OWN_PROTOCOL]
    if not names:
        return
    from vrtspike.evaluation.protocols import PROTOCOLS

    for name in names:
        PROTOCOLS[name].require_blur(blur_dir, str(manifest))


def training_weights(settings: Settings) -> dict[str, Path]:
    """Return the files of weights that a training reads, by key."""
    model = settings.MODEL
    distill = settings.TRAIN.DISTILL
    files: dict[str, str | Path | None] = {}
    if model.PRETRAINED is not None:
        files["MODEL.PRETRAINED"] = pretrained_file(model.PRETRAINED)
    files |= model.network.weights
    if distill is not None:
        files[TEACHER] = Path(distill.TEACHER) / WEIGHTS
    for name, term in settings.LOSS.active.items():
        if term.backbone is not None:
            files[f"LOSS.{name}"] = Path(settings.WEIGHTS.DIR) / BACKBONES[term.backbone]
    return {key: Path(path) for key, path in files.items() if path is not None}


def evaluation_weights(settings: Settings) -> dict[str, Path]:
    """Return the files that an evaluation reads besides the trained weights, by key."""
    if "lpips" not in settings.TEST.METRICS:
        return {}
    return {"TEST.METRICS": Path(settings.WEIGHTS.DIR) / BACKBONES["alex"]}


def statistics(settings: Settings, manifest: Path) -> Mapping[str, Any]:
    """Return the statistics that standardise the spikes of a run."""
    from vrtspike.data.clips.run_statistics import run_statistics

    return run_statistics(settings, manifest)


def build(run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
    """Build model, objective and batches for one process of a training."""
    from vrtspike.deblurring import preset

    return preset.build(run, ranks, workers)


def evaluate(job: EvaluationJob) -> list[str]:
    """Restore the test split: metrics per frame and sequence, pictures, examples."""
    from vrtspike.evaluation.evaluate import evaluate_run
    from vrtspike.evaluation.summary import summary_lines

    return summary_lines(evaluate_run(job))


def advice(settings: Settings) -> TaskAdvice:
    """Return the keys and words of the deblurring in the advice on a run."""
    from vrtspike.deblurring.advice.runs import DeblurringAdvice

    return DeblurringAdvice(settings)


def page() -> TaskPage:
    """Return the words, columns and pictures of the deblurring on the report page."""
    from vrtspike.deblurring.page import DeblurringPage

    return DeblurringPage()

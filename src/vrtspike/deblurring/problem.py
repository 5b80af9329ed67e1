"""What the deblurring brings to the pipeline (:class:`vrtspike.config.problems.Problem`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.data.manifests import DATASET
from vrtspike.io.manifests import read_manifest
from vrtspike.io.pretrained import BACKBONES
from vrtspike.metrics.registry import METRICS as METRICS
from vrtspike.runs.named_models import start_file
from vrtspike.runs.names import WEIGHTS
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError

if TYPE_CHECKING:
    from vrtspike.analysis.evaluation_files import EvaluationJob
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.training.distributed import Ranks
    from vrtspike.training.tasks import Trainable
    from vrtspike.training.workers import Workers

SETTINGS = Settings
OWN_STAGES = True
TEACHER = "TRAIN.DISTILL.TEACHER"


def data_folder(settings: Settings) -> str:
    """The data set and the bins of its voxel grids."""
    return f"{settings.dataset_name}/k{settings.DATA.NUM_VOXEL_BINS}"


def data_files(settings: Settings) -> Sequence[Path]:
    """None: the rules from ``survey`` to ``statistics`` find them, sequence by sequence."""
    return ()


def data_settings(settings: Settings) -> Mapping[str, Any]:
    """None: the rules of the stages have params of their own."""
    return {}


def prepare(settings: Settings, manifest: Path, show: Callable[[str], None]) -> None:
    """Never called: rules of its own prepare the data (:data:`OWN_STAGES`)."""
    raise NotImplementedError("the rules from survey to statistics prepare these data")


def dataset_digest(manifest: Path) -> str:
    """The digest over all stores of a data set.

    Raises:
        DataError: if there is no such manifest, or none of this version.
    """
    return str(read_manifest(manifest, DATASET)["digest"])


def check_data(manifest: Path, settings: Settings) -> None:
    """Refuse data that a training cannot use, or its evaluation.

    Without spikes where the model, or its teacher, needs them, with other voxels than the teacher,
    or the model that it starts from, has learned from, without sequences to hold out, or with other
    blurry frames than a protocol measures.

    Raises:
        ConfigError: naming the data set, the teacher or the start, and the key.
        RunError: if the teacher or the start is damaged.
    """
    from vrtspike.data.clips.dataset import load_dataset
    from vrtspike.data.clips.requirements import require_spikes
    from vrtspike.data.clips.run_statistics import read_statistics, training_statistics
    from vrtspike.deblurring.fine_tuning import require_fitting_start
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.settings import deblurring_settings

    dataset = load_dataset(manifest)
    if settings.kept_start is None:
        dataset.divided(settings.DATA)
    has_spikes = dataset.statistics is not None
    require_spikes(str(manifest), has_spikes, settings)
    require_fitting_start(settings)
    files = training_weights(settings)
    if TEACHER in files:
        folder = files[TEACHER].parent
        taught = deblurring_settings(RunIdentity.read(folder).settings)
        require_spikes(f"{manifest}, with {TEACHER} {folder}", has_spikes, taught)
        if taught.MODEL.USE_SPIKE:
            norms = read_statistics(folder), training_statistics(settings, dataset)
            theirs, ours = (
                (data.NUM_VOXEL_BINS, data.CONTEXT_STEPS, norm.mean, norm.std)
                for data, norm in zip((taught.DATA, settings.DATA), norms, strict=True)
                if norm is not None
            )
            # Those of data that were read again may differ in the last digits.
            if not all(map(partial(math.isclose, rel_tol=1e-3), theirs, ours)):
                raise ConfigError(
                    f"{TEACHER} {folder}: found DATA.NUM_VOXEL_BINS, CONTEXT_STEPS, NORM.MEAN and "
                    f"STD = {theirs}, this preset has {ours}; they must be equal: set these keys "
                    "to its values, or choose another teacher"
                )
    if others := [name for name in settings.TEST.PROTOCOL if name != "own"]:
        from vrtspike.evaluation.protocols import PROTOCOLS

        for name in others:
            PROTOCOLS[name].require_blur(dataset.blur_dir, str(manifest))


def training_weights(settings: Settings) -> dict[str, Path]:
    """The files a training reads, by the key that asks for them."""
    vrt, distill, folder = settings.MODEL.VRT, settings.TRAIN.DISTILL, Path(settings.WEIGHTS.DIR)
    start = settings.MODEL.PRETRAINED
    named: dict[str, str | Path | None] = {
        "MODEL.PRETRAINED": None if start is None else start_file(start)
    }
    if settings.MODEL.TYPE == "vrt_spike":
        named |= {"MODEL.VRT.PRETRAINED": vrt.PRETRAINED, "MODEL.VRT.SPYNET": vrt.SPYNET}
    if distill is not None:
        named[TEACHER] = Path(distill.TEACHER) / WEIGHTS
    for name, term in settings.LOSS.active.items():
        if term.backbone is not None:
            named[f"LOSS.{name}"] = folder / BACKBONES[term.backbone]
    return {key: Path(path) for key, path in named.items() if path is not None}


def evaluation_weights(settings: Settings) -> dict[str, Path]:
    """The files an evaluation reads besides the trained weights, by the key that asks for them."""
    if "lpips" not in settings.TEST.METRICS:
        return {}
    return {"TEST.METRICS": Path(settings.WEIGHTS.DIR) / BACKBONES["alex"]}


def memory(settings: Settings) -> None:
    """Counted by ``benchmarks/presets.py``, see :mod:`vrtspike.deblurring.costs`."""


def statistics(settings: Settings, manifest: Path) -> Mapping[str, Any]:
    """What the spikes of a run are standardised with."""
    from vrtspike.data.clips.run_statistics import run_statistics

    return run_statistics(settings, manifest)


def build(run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
    """Model, task and batches for one process of a training."""
    from vrtspike.deblurring import preset

    return preset.build(run, ranks, workers)


def evaluate(job: EvaluationJob) -> list[str]:
    """Restore the test split: metrics per frame and sequence, pictures, examples."""
    from vrtspike.evaluation.evaluate import evaluate_run
    from vrtspike.evaluation.summary import summary_lines

    return summary_lines(evaluate_run(job))

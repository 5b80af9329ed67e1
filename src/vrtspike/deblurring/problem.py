"""What the deblurring brings to the pipeline (:class:`vrtspike.problems.Problem`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.deblurring.data.manifests import DATASET
from vrtspike.deblurring.metrics.table import METRICS as METRICS
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.weight_files import TEACHER
from vrtspike.deblurring.weight_files import evaluation_weights as evaluation_weights
from vrtspike.deblurring.weight_files import training_weights as training_weights
from vrtspike.manifests import read_manifest

if TYPE_CHECKING:
    import torch

    from vrtspike.runs.identity import RunIdentity
    from vrtspike.runs.published import PublishedRun
    from vrtspike.training.distributed import Ranks
    from vrtspike.training.one_process import Trainable
    from vrtspike.training.workers import Workers

SETTINGS = Settings
OWN_STAGES = True


def data_folder(settings: Settings) -> str:
    """The data set and the bins of its voxel grids."""
    return f"{settings.dataset_name}/k{settings.DATA.K}"


def data_files(settings: Settings) -> Sequence[Path]:
    """None: the rules from ``survey`` to ``statistics`` find them, sequence by sequence."""
    return ()


def data_settings(settings: Settings) -> Mapping[str, Any]:
    """None: the rules of the stages have params of their own."""
    return {}


def prepare(settings: Settings, manifest: Path, tell: Callable[[str], None]) -> None:
    """Never called: rules of its own prepare the data (:data:`OWN_STAGES`)."""
    raise NotImplementedError("the rules from survey to statistics prepare these data")


def dataset_digest(manifest: Path) -> str:
    """The digest over all stores of a data set.

    Raises:
        DataError: if there is no such manifest, or none of this version.
    """
    return str(read_manifest(manifest, DATASET)["digest"])


def check_data(manifest: Path, settings: Settings) -> None:
    """Refuse data without spikes where the model, or its teacher, needs them.

    Raises:
        ConfigError: naming the data set and the key.
    """
    from vrtspike.deblurring.data.clips.requirements import require_spikes
    from vrtspike.deblurring.settings import deblurring_settings
    from vrtspike.runs.identity import RunIdentity

    has_spikes = read_manifest(manifest, DATASET)["statistics"] is not None
    require_spikes(str(manifest), has_spikes, settings)
    files = training_weights(settings)
    if TEACHER in files:
        folder = files[TEACHER].parent
        taught = deblurring_settings(RunIdentity.read(folder).settings)
        require_spikes(f"{manifest}, with {TEACHER} {folder}", has_spikes, taught)


def memory(settings: Settings) -> None:
    """Counted by ``benchmarks/preset_costs.py``, see :mod:`vrtspike.deblurring.costs`."""


def statistics(run: RunIdentity) -> Mapping[str, Any]:
    """What the spikes of a run are standardised with."""
    from vrtspike.deblurring.statistics import run_statistics

    return run_statistics(run)


def build(run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
    """Model, task and batches for one process of a training."""
    from vrtspike.deblurring import preset

    return preset.build(run, ranks, workers)


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
    """Restore the test split: metrics per frame and sequence, pictures, examples."""
    from vrtspike.deblurring.evaluation.evaluate import evaluate_run
    from vrtspike.deblurring.evaluation.summary import summary_lines

    summary = evaluate_run(weights, run, dataset, output, device, progress, error_map=error_map)
    return summary_lines(summary)

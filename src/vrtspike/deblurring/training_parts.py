"""A preset of deblurring for the training loop: model, objective and batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.dataset_manifest import HELD_OUT, DatasetManifest, load_dataset
from vrtspike.data.clips.run_statistics import training_statistics
from vrtspike.data.clips.shuffled_spikes import ShuffledSpikesDataset
from vrtspike.data.store.reading import cache_share
from vrtspike.deblurring.objective import DeblurringObjective
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.deblurring_settings.schema import VALIDATION_METRICS
from vrtspike.deblurring_settings.train import DeblurringTrainSettings
from vrtspike.losses.registry import build_loss_terms
from vrtspike.metrics.metric import ImageMetric, MetricFunction
from vrtspike.metrics.registry import METRICS
from vrtspike.models import Restorer, build_model
from vrtspike.models.restorer import BACKBONE, FLOW
from vrtspike.restoration.tiled_inference import load_model
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import RunError, UserError
from vrtspike.training.batches import NoBatches, ShuffledBatches, ValidationBatches
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.optimizers import DEFAULT_GROUP
from vrtspike.training.workers import WorkerCounts

T = TypeVar("T")


def build_training_parts(
    run: RunIdentity, ranks: DistributedContext, workers: WorkerCounts
) -> TrainingParts:
    """Build model, objective and batches of a run, for one of its processes.

    Raises:
        UserError: if the data, weights or settings cannot be used; the same on all processes if it
            concerns all of them.
    """
    settings = require_deblurring_settings(run.settings, run.name)
    manifest = load_dataset(run.dataset)
    model = build_training_model(settings).to(ranks.device)
    objective = build_objective(settings, manifest, ranks.device)
    training: ShuffledBatches | NoBatches = NoBatches()
    validation: ValidationBatches | None = None
    if settings.unchanged_weights is None:
        training = training_batches(settings, manifest, workers, ranks)
        validation = validation_batches(settings, manifest, workers, ranks)
    return TrainingParts(
        model,
        objective,
        training,
        validation,
        note=model.describe(),
        lr_factors=_of_groups(lr_factors(settings.TRAIN), model),
        frozen_steps=_of_groups({FLOW: settings.TRAIN.FREEZE_FLOW_STEPS or 0}, model),
        half_precision_weights=model.half_precision_weights,
    )


def lr_factors(train: DeblurringTrainSettings) -> dict[str, float]:
    """Return the factors of the learning rate by group of parameters.

    The factor of the flow multiplies the rate of the backbone, as in VRT's training.
    """
    factors = train.OPTIM.LR_FACTORS
    flow = factors.BACKBONE * factors.FLOW
    return {DEFAULT_GROUP: factors.NEW, BACKBONE: factors.BACKBONE, FLOW: flow}


def _of_groups(values: Mapping[str, T], model: Restorer) -> dict[str, T]:
    """Return the values of the groups of parameters that a model has."""
    groups = {DEFAULT_GROUP, *model.lr_groups()}
    return {group: value for group, value in values.items() if group in groups}


def build_training_model(settings: DeblurringSettings) -> Restorer:
    """Build the model of a preset for training; freeze parameters that its clips never use.

    A clip of one frame has no neighbours and uses neither flow nor alignment. Processes that
    exchange gradients would wait for those of unused parameters.
    """
    model = build_model(settings)
    if settings.DATA.CLIP_LEN == 1:
        unused = set(model.lr_groups().get(FLOW, ()))
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in unused)
    return model


def build_objective(
    settings: DeblurringSettings, manifest: DatasetManifest, device: torch.device
) -> DeblurringObjective:
    """Build the deblurring objective of a preset, with its losses and its teacher.

    Raises:
        UserError: if weights that a loss or a metric needs, or the teacher, are missing.
    """
    weights = Path(settings.WEIGHTS.DIR)
    terms = build_loss_terms(settings.LOSS, weights, device)
    metric_functions: dict[ImageMetric, MetricFunction] = {
        METRICS[name]: METRICS[name].load(weights, device) for name in VALIDATION_METRICS
    }
    statistics = training_statistics(settings, manifest)
    distill = settings.TRAIN.DISTILL
    if distill is None:
        return DeblurringObjective(statistics, terms, metric_functions)
    teacher = load_teacher(Path(distill.TEACHER), device)
    return DeblurringObjective(statistics, terms, metric_functions, teacher, distill.WEIGHT)


def load_teacher(folder: Path, device: torch.device) -> nn.Module:
    """Load the trained model of a published result folder, frozen.

    Raises:
        RunError: if it is missing or damaged.
    """
    try:
        teacher = RunIdentity.read(folder)
        settings = require_deblurring_settings(teacher.settings, teacher.name)
        model = load_model(folder / WEIGHTS, settings, device)
    except UserError as error:
        raise RunError(
            f"TRAIN.DISTILL.TEACHER {folder}: the teacher is missing or damaged, or its files are "
            f"of different runs: {error}\nTrain that preset, copy its whole result folder, or "
            "name another one"
        ) from error
    return model.requires_grad_(False)


def training_batches(
    settings: DeblurringSettings,
    manifest: DatasetManifest,
    workers: WorkerCounts,
    ranks: DistributedContext,
) -> ShuffledBatches:
    """Build the training batches of a preset; in a progressive one, crops grow with the epochs."""
    readers = ranks.local_world_size * max(1, workers.train)
    cache = cache_share(settings.DATA, readers)
    crops = [phase.CROP_SIZE for phase in settings.TRAIN.PROGRESSIVE for _ in range(phase.EPOCHS)]
    split = settings.DATA.TRAIN_SPLIT
    clips = _clips(settings, manifest, split, seed=settings.SEED, cache_bytes=cache, crops=crops)
    return ShuffledBatches(clips, settings, workers, ranks)


def validation_batches(
    settings: DeblurringSettings,
    manifest: DatasetManifest,
    workers: WorkerCounts,
    ranks: DistributedContext,
) -> ValidationBatches:
    """Build the validation batches of this process: centred crops of the validation split."""
    split = HELD_OUT if settings.DATA.VALIDATION == "held_out" else settings.DATA.TEST_SPLIT
    clips = _clips(settings, manifest, split, train=False)
    return ValidationBatches(clips, settings, workers, ranks)


def _clips(
    settings: DeblurringSettings,
    manifest: DatasetManifest,
    split: str,
    **options: Any,  # noqa: ANN401 - as of any clips
) -> ClipDataset:
    """Open the clips of a split, of the kind that a preset's model takes."""
    kind = ShuffledSpikesDataset if settings.MODEL.shuffles_spikes else ClipDataset
    return kind(manifest.with_validation_split(settings.DATA), split, settings.DATA, **options)

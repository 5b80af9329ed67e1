"""One training process: from a run's settings to a trainer at work, and its final records."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import nn

from vrtspike.config import Settings
from vrtspike.config.loading import load_settings_file
from vrtspike.data.cache import cache_share, cache_statistics
from vrtspike.data.clips import ClipDataset
from vrtspike.data.dataset import DatasetManifest, load_dataset
from vrtspike.data.loading import Workers, resolve_workers
from vrtspike.errors import RunError
from vrtspike.models import build_model
from vrtspike.monitoring.display import Display, open_display
from vrtspike.monitoring.environment import describe_environment
from vrtspike.monitoring.memory import gpu_categories
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.training.batches import (
    Batches,
    CacheUse,
    LoaderOptions,
    PhasedBatches,
    ShuffledBatches,
    ValidationBatches,
)
from vrtspike.training.deblurring import DeblurringTask, Teacher
from vrtspike.training.distributed import Ranks, join
from vrtspike.training.loop import Trainer
from vrtspike.training.losses import build_terms
from vrtspike.training.run_folder import ResolvedRun, RunRecord, hold_run
from vrtspike.training.run_log import RunLog
from vrtspike.training.seeding import seed_everything
from vrtspike.training.signals import EXIT_INTERRUPTED, StopRequest

MEMORY_ADVICE = (
    "The GPU's memory is full. In this order: lower TRAIN.BATCH_SIZE and raise "
    "TRAIN.GRADIENT_ACCUMULATION_STEPS by the same factor; set MODEL.VRT.USE_CHECKPOINT_ATTN and "
    "USE_CHECKPOINT_FFN to true; lower DATA.CROP_SIZE or DATA.CLIP_LEN; set TRAIN.OPTIM.TYPE to "
    "adamw8bit. logs/memory.jsonl in the run folder shows how it filled up"
)


def run_session(folder: Path) -> int:
    """Train the run in ``folder`` as one of the processes that ``torchrun`` started.

    Returns:
        0 when the run is finished, :data:`EXIT_INTERRUPTED` when it was stopped and saved.

    Raises:
        UserError: equal on all processes where it concerns all.
    """
    run = ResolvedRun.read(folder)
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        ranks = stack.enter_context(join())
        display = open_display(ranks.is_main)
        stack.callback(display.close)
        _hold(folder, ranks, display, stack)
        _set_arithmetic(run.settings, ranks.device)
        return _train(run, folder, ranks, display, stop)


def _train(
    run: ResolvedRun, folder: Path, ranks: Ranks, display: Display, stop: StopRequest
) -> int:
    settings, dataset = run.settings, load_dataset(run.dataset)
    seed_everything(settings.SEED)
    model = build_network(settings).to(ranks.device)
    log_settings = settings.LOG
    timing = TimingLogger(
        folder / "logs",
        ranks.device,
        enabled=log_settings.ENABLE_TIMING_LOG and ranks.is_main,
        console=log_settings.TIMING_CONSOLE and display,
        file=log_settings.TIMING_FILE,
        console_interval=log_settings.TIMING_CONSOLE_INTERVAL,
        file_interval=log_settings.TIMING_FILE_INTERVAL,
    )
    workers = resolve_workers(settings.DATALOADER, ranks.local_world_size)
    loader = settings.DATALOADER
    display.note(
        "\n".join(
            workers.describe(
                settings.TRAIN.BATCH_SIZE,
                loader.TRAIN_PREFETCH_FACTOR,
                loader.VAL_PREFETCH_FACTOR,
            )
        )
    )
    record = RunRecord(folder, ranks.is_main)
    board = log_settings.TENSORBOARD
    log = RunLog(folder, run.fingerprint, ranks.is_main, board, display, record)
    trainer = Trainer(
        model=model,
        task=build_task(settings, dataset, ranks.device),
        batches=training_batches(settings, dataset, workers, ranks),
        validation=validation_batches(settings, dataset, workers, ranks),
        settings=settings,
        ranks=ranks,
        log=log,
        timing=timing,
        display=display,
    )
    parameters = sum(p.numel() for p in model.parameters())
    display.note(
        f"{run.name} ({run.fingerprint}): {parameters / 1e6:.2f} M parameters, "
        f"{trainer.precision.name}, {ranks.world_size} x {ranks.device.type}, "
        f"steps {trainer.progress.step} to {trainer.total}, {trainer.micro_batches} batches of "
        f"{settings.TRAIN.BATCH_SIZE} a step"
    )
    record.start(
        run,
        trainer.progress.step,
        dataset_digest=dataset.digest,
        environment=describe_environment(ranks.device),
        parameters=parameters,
        precision=trainer.precision.name,
        processes=ranks.world_size,
        total_steps=trainer.total,
    )
    log.memory(trainer.progress.step, ranks.device)
    try:
        outcome = trainer.run(stop)
    except torch.OutOfMemoryError as error:
        record.update("failed", trainer.progress.step, failure=str(error))
        raise RunError(f"{error}\n{MEMORY_ADVICE}") from error
    except BaseException as error:
        record.update("failed", trainer.progress.step, failure=f"{type(error).__name__}: {error}")
        raise
    finally:
        timing.print_summary()
        timing.close()
    log.gpu_categories(gpu_categories(model, trainer.optimizer, ranks.device))
    if outcome == "finished":
        log.final(trainer.trained_model())
    log.close()
    record.update(outcome, trainer.progress.step, **trainer.progress.figures())
    return 0 if outcome == "finished" else EXIT_INTERRUPTED


def build_network(settings: Settings, *, pretrained: bool = True) -> nn.Module:
    """The model of a preset, for its largest crops."""
    phases = settings.TRAIN.PROGRESSIVE
    crop = max([phase.CROP_SIZE for phase in phases], default=settings.DATA.CROP_SIZE)
    return build_model(
        settings.MODEL,
        bins=settings.DATA.K,
        clip_len=settings.DATA.CLIP_LEN,
        crop_size=crop,
        pretrained=pretrained,
    )


def build_task(
    settings: Settings, dataset: DatasetManifest, device: torch.device
) -> DeblurringTask:
    """The deblurring task of a preset, with its losses and its teacher.

    Raises:
        UserError: if weights that a loss needs, or the teacher, are missing.
    """
    terms = build_terms(settings.LOSS, settings.WEIGHTS.DIR, device)
    statistics = dataset.statistics_for(settings.DATA)
    distill = settings.TRAIN.DISTILL
    if distill is None:
        return DeblurringTask(statistics, terms)
    teacher = load_teacher(Path(distill.TEACHER), settings).to(device)
    return DeblurringTask(statistics, terms, Teacher(teacher, distill.WEIGHT))


def load_teacher(folder: Path, settings: Settings) -> nn.Module:
    """The trained model in a published result folder, frozen.

    Raises:
        RunError: if it is not there, or reads other voxels than the student.
    """
    from safetensors.torch import load_file

    weights = folder / "weights.safetensors"
    if not weights.is_file():
        raise RunError(
            f"TRAIN.DISTILL.TEACHER is {str(folder)!r}: there is no {weights}; train that preset "
            "first, or name its result folder"
        )
    taught = load_settings_file(folder / "settings.json")
    if settings.DATA.K != taught.DATA.K:
        raise RunError(
            f"TRAIN.DISTILL.TEACHER {folder} was trained with DATA.K = {taught.DATA.K}, this "
            f"preset has {settings.DATA.K}; they must be equal"
        )
    model = build_network(taught, pretrained=False)
    model.load_state_dict(load_file(weights))
    return model.eval().requires_grad_(False)


def training_batches(
    settings: Settings, dataset: DatasetManifest, workers: Workers, ranks: Ranks
) -> Batches:
    """The training batches of a preset, in phases where it is progressive."""
    loader = settings.DATALOADER
    readers = ranks.local_world_size * max(1, workers.train)
    cache = cache_share(settings.DATA, readers)
    options = LoaderOptions(
        workers.train, loader.TRAIN_PREFETCH_FACTOR, _pin(settings, ranks), persistent=False
    )

    def batches(crop: int) -> ShuffledBatches:
        data = settings.DATA.model_copy(update={"CROP_SIZE": crop})
        clips = ClipDataset(dataset, data.TRAIN_SPLIT, data, seed=settings.SEED, cache_bytes=cache)
        size, drop_last = settings.TRAIN.BATCH_SIZE, loader.DROP_LAST
        observer = _cache_use if cache else None
        return ShuffledBatches(
            clips, size, settings.SEED, drop_last, options, observer, loader.SHUFFLE_BLOCK
        )

    phases = settings.TRAIN.PROGRESSIVE
    if not phases:
        return batches(settings.DATA.CROP_SIZE)
    return PhasedBatches([(batches(phase.CROP_SIZE), phase.EPOCHS) for phase in phases])


def validation_batches(
    settings: Settings, dataset: DatasetManifest, workers: Workers, ranks: Ranks
) -> ValidationBatches:
    """The validation batches of this process: centred crops of the test split."""
    loader = settings.DATALOADER
    clips = ClipDataset(dataset, settings.DATA.VAL_SPLIT, settings.DATA, train=False)
    options = LoaderOptions(
        workers.val,
        loader.VAL_PREFETCH_FACTOR,
        _pin(settings, ranks),
        persistent=loader.PERSISTENT_WORKERS,
    )
    size = settings.TRAIN.VAL_BATCH_SIZE
    return ValidationBatches(clips, size, ranks.rank, ranks.world_size, options)


def _cache_use() -> CacheUse:
    found = cache_statistics()
    return CacheUse(found.hits, found.misses)


def _pin(settings: Settings, ranks: Ranks) -> bool:
    return settings.DATALOADER.PIN_MEMORY and ranks.device.type == "cuda"


def _hold(folder: Path, ranks: Ranks, display: Display, stack: ExitStack) -> None:
    """Lock the run on the first process; all fail together if it is taken."""
    fault: str | None = None
    if ranks.is_main:
        try:
            stack.enter_context(hold_run(folder, note=display.note))
        except RunError as error:
            fault = str(error)
    fault = ranks.gather(fault)[0]
    if fault is not None:
        raise RunError(fault)


def _set_arithmetic(settings: Settings, device: torch.device) -> None:
    if settings.DETERMINISTIC:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    elif device.type == "cuda":
        torch.backends.cudnn.benchmark = True

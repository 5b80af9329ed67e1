"""Train any model on any data for any task, with everything the training loop offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import RunError
from vrtspike.files import json_digest
from vrtspike.runs.identity import RunIdentity, result_settings
from vrtspike.training.batches import SizedDataset
from vrtspike.training.compiling import Compiler, compile_whole
from vrtspike.training.distributed import Ranks
from vrtspike.training.loading import training_batches, validation_batches
from vrtspike.training.one_process import Outcome, Trainable, train_run
from vrtspike.training.tasks import Task
from vrtspike.training.workers import Workers

_SECTIONS = ("SEED", "DETERMINISTIC", "DATALOADER", "TRAIN", "LOG")
_DEBLURRING = ("PROGRESSIVE", "DISTILL")


def fit(
    folder: str | Path,
    task: Task,
    *,
    model_class: Callable[..., nn.Module],
    dataset_class: Callable[..., SizedDataset],
    model_parameters: Mapping[str, Any] | None = None,
    dataset_parameters: Mapping[str, Any] | None = None,
    validation_parameters: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    compiler: Compiler = compile_whole,
    device: str | None = None,
) -> Outcome:
    """Train a model, or continue where the run in ``folder`` stopped.

    Precision, data loading workers, accumulation, clipping, compilation, moving average, exact
    resume, timing, memory and the summary of each epoch work as for the presets of this project.
    Under ``torchrun`` the processes share the work; end the program with
    :func:`vrtspike.launching.status.leave`.

    Args:
        folder: of the run: checkpoints, logs, weights.
        task: what a batch means.
        model_class: called with ``model_parameters``.
        dataset_class: makes a map-style data set, called with ``dataset_parameters``; worker
            processes import it, so it must stand at the top level of a module.
        model_parameters: JSON values.
        dataset_parameters: JSON values.
        validation_parameters: likewise, for the validation data; None for no validation.
        settings: any of SEED, DETERMINISTIC, DATALOADER, TRAIN and LOG, as in a preset.
        compiler: compiles the model in place where TRAIN.COMPILE_MODEL is set.
        device: ``cpu`` or ``cuda``; None takes a CUDA device where there is one.

    Raises:
        RunError: if the folder holds a run of other parameters or settings, a parameter is no
            JSON value, or a setting would have no effect.
    """
    folder = Path(folder)
    model_parameters, dataset_parameters = model_parameters or {}, dataset_parameters or {}
    known = _checked(settings or {}, validated=validation_parameters is not None)
    parts = {
        "task": _name(type(task)),
        "model": [_name(model_class), model_parameters],
        "dataset": [_name(dataset_class), dataset_parameters],
        "settings": {name: result_settings(known)[name] for name in _SECTIONS},
    }
    run = RunIdentity(type(task).__name__, known, _name(dataset_class), _fingerprint(parts))

    def build(ranks: Ranks, workers: Workers) -> Trainable:
        batches = training_batches(dataset_class(**dataset_parameters), known, workers, ranks)
        validation = None
        if validation_parameters is not None:
            held_out = dataset_class(**validation_parameters)
            validation = validation_batches(held_out, known, workers, ranks)
        model = model_class(**model_parameters).to(ranks.device)
        return Trainable(model, task, batches, validation, compiler)

    return train_run(run, folder, build, device=device)


def _checked(settings: Mapping[str, Any], validated: bool) -> RunSettings:
    for name in settings:
        if name not in _SECTIONS:
            raise RunError(
                f"{name} does not concern a problem of your own; there are {', '.join(_SECTIONS)}"
            )
    known = RunSettings.model_validate(dict(settings))
    for name in _DEBLURRING:
        if getattr(known.TRAIN, name):
            raise RunError(
                f"TRAIN.{name} belongs to this project's own task; leave it out and let your task "
                "or data set do the like"
            )
    if known.TRAIN.EARLY_STOPPING is not None and not validated:
        raise RunError(
            "TRAIN.EARLY_STOPPING watches validation, and there is none: give "
            "validation_parameters, or leave it out"
        )
    return known


def _name(thing: Callable[..., object]) -> str:
    return f"{thing.__module__}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _fingerprint(parts: dict[str, Any]) -> str:
    try:
        return json_digest(parts)[:12]
    except TypeError as error:
        raise RunError(
            f"parameters of models and data sets are JSON values, so that a run can be told from "
            f"another: {error}"
        ) from error

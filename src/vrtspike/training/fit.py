"""Train any model on any data for any objective, as one process of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from vrtspike.config.checking import validate_document
from vrtspike.config.deprecated_keys import replace_deprecated_keys
from vrtspike.config.loading import require_trainable
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import document_from_tree
from vrtspike.io.files import json_digest
from vrtspike.runs.identity import RunIdentity, result_settings
from vrtspike.system.errors import RunError
from vrtspike.training.batches import ShuffledBatches, SizedDataset, ValidationBatches
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.objectives import Objective, TrainingParts
from vrtspike.training.run import TrainingOutcome, train_run
from vrtspike.training.workers import WorkerCounts, hide_main_script

_SECTIONS = ("SEED", "DETERMINISTIC", "DATALOADER", "TRAIN", "LOG")
_ADVICE = "The keys are explained in config/README.md."


def fit(
    folder: str | Path,
    objective: Objective,
    *,
    model_class: Callable[..., nn.Module],
    dataset_class: Callable[..., SizedDataset],
    model_parameters: Mapping[str, Any] | None = None,
    dataset_parameters: Mapping[str, Any] | None = None,
    validation_parameters: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    lr_factors: Mapping[str, float] | None = None,
    device: str | None = None,
) -> TrainingOutcome:
    """Train a model, or continue the run in ``folder``.

    Precision, data loading workers, accumulation, clipping, compilation, moving average, exact
    resume, timing, memory and the summary of each epoch work as for the presets of this project.
    Under ``torchrun`` the processes train together; end the program with
    :func:`vrtspike.launching.signals.exit_process`.

    Args:
        folder: folder of the run: checkpoints, logs, weights.
        objective: loss and metrics of a batch.
        model_class: class or function that makes the model from ``model_parameters``; the model's
            method ``compile`` is called for TRAIN.COMPILE_MODEL. It needs a name: no lambda or
            ``partial``.
        dataset_class: class or function, also with a name, that makes a map-style data set from
            ``dataset_parameters``. Worker processes import it, so define it at the top level of a
            module. If that is the script itself, put the training under
            ``if __name__ == "__main__":``.
        model_parameters: JSON values.
        dataset_parameters: JSON values.
        validation_parameters: JSON values for the validation data; None for no validation.
        identity: JSON values that decide the result besides these: the objective's parameters, the
            contents of the data; None takes the objective's attributes.
        settings: values of any of SEED, DETERMINISTIC, DATALOADER, TRAIN and LOG, as in a preset.
        lr_factors: factors on the learning rate, by the parameter groups of the model's method
            ``lr_groups()``.
        device: ``cpu`` or ``cuda``; None takes a CUDA device if there is one.

    Raises:
        ConfigError: if a setting is wrong.
        RunError: if the folder holds checkpoints of other parameters or settings, these or the
            objective's attributes are not JSON values, or a setting would have no effect.
    """
    folder = Path(folder)
    model_parameters = model_parameters or {}
    dataset_parameters = dataset_parameters or {}
    run_settings = _validated_settings(settings or {}, validated=validation_parameters is not None)
    # An objective without attributes, such as one with slots, is rejected: it is not a JSON value.
    attributes = getattr(objective, "__dict__", objective) if identity is None else dict(identity)
    run = _fit_identity(
        type(objective),
        run_settings,
        model=(_dotted_name(model_class), model_parameters),
        dataset=(_dotted_name(dataset_class), dataset_parameters),
        validation=validation_parameters,
        attributes=attributes,
        lr_factors=lr_factors or {},
    )

    def build(ranks: DistributedContext, workers: WorkerCounts) -> TrainingParts:
        batches = ShuffledBatches(dataset_class(**dataset_parameters), run_settings, workers, ranks)
        validation = None
        if validation_parameters is not None:
            held_out = dataset_class(**validation_parameters)
            validation = ValidationBatches(held_out, run_settings, workers, ranks)
        model = model_class(**model_parameters).to(ranks.device)
        return TrainingParts(model, objective, batches, validation, lr_factors=lr_factors or {})

    with hide_main_script(dataset_class):
        return train_run(run, folder, build, device=device)


def _fit_identity(
    objective_class: type,
    settings: RunSettings,
    *,
    model: tuple[str, Mapping[str, Any]],
    dataset: tuple[str, Mapping[str, Any]],
    validation: Mapping[str, Any] | None,
    attributes: Any,  # noqa: ANN401 - JSON values, or what is rejected
    lr_factors: Mapping[str, float],
) -> RunIdentity:
    """Return the identity of a run of :func:`fit`.

    Args:
        objective_class: class of the objective.
        settings: complete settings.
        model: name of the class of the model, and its parameters.
        dataset: name of the class of the training data, and its parameters.
        validation: parameters of the validation data; left out without early stopping.
        attributes: further values that decide the result; left out if empty.
        lr_factors: factors on the learning rate; left out if empty.

    Raises:
        RunError: if a class has no name, or a value is not JSON.
    """
    parts: dict[str, Any] = {
        # The names are those of the first version, so that fingerprints of earlier runs stay.
        "task": _dotted_name(objective_class),
        "model": model,
        "dataset": dataset,
        "settings": {name: result_settings(settings)[name] for name in _SECTIONS},
    }
    if settings.TRAIN.EARLY_STOPPING is not None:
        parts["validation"] = validation
    if lr_factors:
        parts["rates"] = dict(lr_factors)
    if attributes:
        parts["identity"] = attributes
    try:
        fingerprint = json_digest(parts)[:12]
    except (TypeError, ValueError) as error:
        raise RunError(
            "parameters of models and data sets, and attributes of the objective where there is no "
            f"identity, must be JSON values, which identify the run: {error}"
        ) from error
    dataset_name, _ = dataset
    return RunIdentity(objective_class.__name__, settings, dataset_name, fingerprint)


def _validated_settings(settings: Mapping[str, Any], validated: bool) -> RunSettings:
    """Return the settings of :func:`fit`, complete.

    Args:
        settings: sections of a preset.
        validated: true if there are validation data.

    Raises:
        ConfigError: if a setting is wrong.
        RunError: if a section is unknown, or early stopping has no validation.
    """
    for name in settings:
        if name not in _SECTIONS:
            raise RunError(f"settings: unknown section {name}; fit takes {', '.join(_SECTIONS)}")
    document = replace_deprecated_keys(
        document_from_tree(settings, "settings"), RunSettings.deprecated_keys
    )
    result = validate_document(RunSettings, document, _ADVICE)
    require_trainable(result)
    if result.TRAIN.EARLY_STOPPING is not None and not validated:
        raise RunError(
            "TRAIN.EARLY_STOPPING needs validation: give validation_parameters, or remove the key"
        )
    return result


def _dotted_name(named: Callable[..., object]) -> str:
    """Return the dotted name of a class or a function.

    Raises:
        RunError: if it has no name.
    """
    name = getattr(named, "__qualname__", "<lambda>")
    if name.endswith("<lambda>"):
        raise RunError(
            f"{named}: expected a named class or function, which identifies the run; what it is "
            "given goes into model_parameters or dataset_parameters"
        )
    return f"{named.__module__}.{name}"

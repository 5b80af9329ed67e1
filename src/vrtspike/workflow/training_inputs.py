"""Weights that a training reads, as inputs of its rule; reruns of stale trainings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from vrtspike.runs.file_names import WEIGHTS
from vrtspike.workflow.training_staleness import Trainings


class TrainingInputs(NamedTuple):
    """Files of weights that other jobs make.

    Attributes:
        trained: results of other trainings.
        downloaded: published weights, whose contents are fixed.
    """

    trained: list[str]
    downloaded: list[str]


def training_inputs(
    trainings: Trainings,
    preset: str,
    retrained: Collection[str],
    force_rerun: Callable[[str, str], None],
    note: Callable[[str], None],
) -> TrainingInputs:
    """List the weights that a training reads, and force its rerun if it is stale.

    Args:
        trainings: the trainings of the configuration.
        preset: name of the preset.
        retrained: presets of RETRAIN.
        force_rerun: function called with the result of a stale training and the reason.
        note: function called with each notice.

    Raises:
        UserError: if files or packages are missing, or the training needs its own result.
    """
    is_asked = preset in retrained and trainings.changed_code(preset) != []
    trainings.require_files(preset, retrain=is_asked)
    result = trainings.result(preset) / WEIGHTS
    change = "asked for" if is_asked else trainings.describe_changes(preset)
    if not change and not result.exists():
        # Results of a former training may still exist.
        change = "no result yet"
    if change:
        force_rerun(str(result), change)
    for notice in _notices(trainings, preset, retrained, change):
        note(notice)
    return TrainingInputs(
        [str(path) for path in trainings.weights(preset, "trained").values()],
        [str(path) for path in trainings.weights(preset, "downloaded").values()],
    )


def _notices(
    trainings: Trainings, preset: str, retrained: Collection[str], change: str
) -> list[str]:
    """Return notices on a stale training that could be continued, or on one whose code has changed.

    Args:
        change: reason for training again; empty without one.
    """
    if change:
        continuation = trainings.continuation_notice(preset)
        return [] if continuation is None else [continuation]
    changed_code = trainings.code_notice(preset)
    if changed_code is not None:
        return [changed_code]
    if preset in retrained:
        return [f"{preset}: its code has not changed; RETRAIN does nothing"]
    return []

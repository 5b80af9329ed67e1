"""Staleness of trainings: changes since a preset was trained, and the weights that it reads.

The current configuration is compared with ``settings.json`` next to the weights, so that it also
works for copied results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from vrtspike.config.loading import require_trainable
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.seed_names import split_seed
from vrtspike.config.tasks import find_task
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.io.backbone_weights import PUBLISHED
from vrtspike.io.flatten import differing_values
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.identity import RunIdentity, result_settings, weight_digests
from vrtspike.staleness.training_code import code_changes
from vrtspike.system.errors import ConfigError, UserError, first_few

WeightsOrigin = Literal["trained", "downloaded", "given"]
"""Source of weights: trained or downloaded by jobs of this workflow, or given by the user."""


@dataclass(frozen=True)
class TrainingPlan:
    """The decision on a training in a plan.

    Attributes:
        result: file of the trained weights.
        rerun_reason: reason to train; empty if the result is kept.
        message: text for the user at the end of the plan; None without one.
    """

    result: Path
    rerun_reason: str
    message: str | None


class TrainingPlanner:
    """The trainings of a configuration, and the decision whether they run.

    Args:
        workflow: configuration with the presets.
        program: ``scripts/train.py``.
        remedies: function that returns the remedies for missing files of weights of a preset, by
            the key that names them.
    """

    def __init__(
        self,
        workflow: WorkflowConfig,
        program: Path,
        remedies: Callable[[RunSettings], Mapping[str, str]],
    ) -> None:
        self._workflow = workflow
        self._program = program
        self._remedies = remedies
        self._digests: dict[Path, str] = {}

    @cached_property
    def retrained(self) -> frozenset[str]:
        """The trainings that RETRAIN names, as presets or by their sweep, with all seeds."""
        names = set(self._workflow.settings.RETRAIN)
        for sweep in names & self._workflow.sweeps.keys():
            names |= set(self._workflow.sweeps[sweep].members)
        trainings = []
        for training in self._workflow.trainings:
            preset, _ = split_seed(training)
            if training in names or preset in names:
                trainings.append(training)
        return frozenset(trainings)

    def plan(self, preset: str) -> TrainingPlan:
        """Decide whether a preset is trained.

        Raises:
            UserError: if files or packages are missing, or the training needs its own result.
        """
        is_asked = preset in self.retrained and self.changed_code(preset) != []
        self.require_files(preset, retrain=is_asked)
        result = self.result(preset) / WEIGHTS
        reason = "asked for" if is_asked else self.describe_changes(preset)
        if not reason and not result.exists():
            # Results of a former training may still exist.
            reason = "no result yet"
        if reason:
            return TrainingPlan(result, reason, self.continuation_message(preset))
        message = self.code_message(preset)
        if message is None and preset in self.retrained:
            message = f"{preset}: its code has not changed; RETRAIN does nothing"
        return TrainingPlan(result, "", message)

    def result(self, preset: str) -> Path:
        """Return the folder of a preset's published result."""
        return Path(self._workflow.settings.RESULTS) / "train" / preset

    def is_trained(self, preset: str) -> bool:
        """Return whether a result exists, stale or not."""
        return (self.result(preset) / WEIGHTS).is_file()

    def weights(self, preset: str, origin: WeightsOrigin) -> dict[str, Path]:
        """Return the files of weights of one origin that a preset's training reads, by key."""
        settings = self._workflow.settings_of(preset)
        trained = {self.result(name) / WEIGHTS for name in self._workflow.trainings}
        files = find_task(settings.TASK).training_weights(settings)
        return {key: path for key, path in files.items() if _origin(path, trained) == origin}

    def require_files(self, preset: str, *, retrain: bool = False) -> None:
        """Reject missing files and packages of a training that will run and that no job makes.

        Args:
            preset: name of the preset.
            retrain: if true, the preset is always trained again.

        Raises:
            ConfigError: naming keys and paths, or if a training needs its own result.
        """
        self._require_order([preset])
        if retrain or not self.is_trained(preset) or self.describe_changes(preset):
            settings = self._workflow.settings_of(preset)
            given = self.weights(preset, "given")
            require_trainable(settings, preset, given, self._remedies(settings))

    def _require_order(self, chain: list[str]) -> None:
        """Reject a training that needs its own result, directly or through others.

        Args:
            chain: trainings, each of which needs the next one.

        Raises:
            ConfigError: naming the key and the chain.
        """
        for key, path in self.weights(chain[-1], "trained").items():
            needed = path.parent.name
            if needed in chain:
                raise ConfigError(
                    f"preset {chain[0]}: {key} is circular: {' needs '.join([*chain, needed])}; "
                    "name the result of another preset"
                )
            self._require_order([*chain, needed])

    def describe_changes(self, preset: str) -> str:
        """Describe the changes of settings, data and weights since a preset was trained.

        Missing files of weights, and data that are not prepared, count as unchanged.

        Returns:
            the changes in one line; empty if there are none, or no result.

        Raises:
            RunError: if the identity of a result is missing. Training again would remove its
                weights, so this is left to the user.
        """
        if not self.is_trained(preset):
            return ""
        run = RunIdentity.read(self.result(preset))
        return ", ".join(
            [
                *self._setting_changes(preset, run),
                *self._data_changes(preset, run),
                *self._weight_changes(preset, run),
            ]
        )

    def _setting_changes(self, preset: str, run: RunIdentity) -> list[str]:
        """Return the settings that change the result and differ from the settings of a run."""
        before = result_settings(run.settings)
        now = result_settings(self._workflow.settings_of(preset))
        differences = differing_values(before, now)
        return [f"{key} {old} -> {new}" for key, (old, new) in sorted(differences.items())]

    def _data_changes(self, preset: str, run: RunIdentity) -> list[str]:
        """Return the difference between the data of a preset and the data of a run, if any."""
        before = Path(run.dataset)
        now = self._workflow.manifest(preset)
        settings = self._workflow.settings_of(preset)
        task = find_task(settings.TASK)
        try:
            digest = task.dataset_digest(now)
        except UserError:  # the data are not prepared
            # The data set is identified by its folder below the data, wherever the results lie.
            count = len(Path(task.data_folder(settings), now.name).parts)
            return [] if before.parts[-count:] == now.parts[-count:] else ["another data set"]
        return ["the data have changed"] if digest != run.dataset_digest else []

    def _weight_changes(self, preset: str, run: RunIdentity) -> list[str]:
        """Return the keys of weights whose files differ from the files of a run."""
        changes = []
        for key, path in self.weights(preset, "given").items():
            digest = self._digest(key, path) if path.is_file() else run.weights.get(key, "")
            if digest != run.weights.get(key):
                changes.append(f"{key}: other weights")
        return changes

    def _digest(self, key: str, path: Path) -> str:
        """Return the digest of a file of weights, which a plan asks for many times."""
        if path not in self._digests:
            self._digests[path] = weight_digests({key: path})[key]
        return self._digests[path]

    def continuation_message(self, preset: str) -> str | None:
        """Return a message on how to continue a finished run that is to be longer, if it is.

        Changed settings start another run, from the beginning.

        Args:
            preset: name of the preset.
        """
        if not self.is_trained(preset):
            return None
        before = RunIdentity.read(self.result(preset)).settings
        now = self._workflow.settings_of(preset)
        if before.unchanged_weights is not None:
            return None
        limits_before = result_settings(before)["TRAIN"]
        limits_now = result_settings(now)["TRAIN"]
        longer = [
            name
            for name in ("MAX_STEPS", "EPOCHS")
            if _limit(limits_now, name) > _limit(limits_before, name)
        ]
        if not longer:
            return None
        keys = " and ".join(f"TRAIN.{name}" for name in longer)
        return (
            f"{preset}: {keys} raised: it is trained from the beginning, and replaces the finished "
            f"run. To go on from that run instead, take {keys} back and train another preset with "
            f"BASE: {preset} and MODEL.PRETRAINED: {self.result(preset)}"
        )

    def changed_code(self, preset: str) -> list[str] | None:
        """Return the changed files of code since a preset was trained; None if unknown."""
        return code_changes(
            self.result(preset), self._program, self._workflow.settings_of(preset).TASK
        )

    def code_message(self, preset: str) -> str | None:
        """Return a message on changed code since a preset was trained, if any is known."""
        changed = self.changed_code(preset)
        if not changed:
            return None
        return (
            f"{preset} was trained by other code: {first_few(changed)}. Its weights stay; to train "
            f"it again: snakemake --cores all train_{preset} --config RETRAIN={preset}"
        )


def _origin(path: Path, trained: Collection[Path]) -> WeightsOrigin:
    """Return the origin of a file of weights.

    Args:
        path: path of the weights.
        trained: files that trainings of this workflow write.
    """
    if path in trained:
        return "trained"
    return "downloaded" if path.name in PUBLISHED else "given"


def _limit(train: Mapping[str, int | None], name: str) -> float:
    """Return the value of MAX_STEPS or EPOCHS; infinite for null."""
    limit = train[name]
    return math.inf if limit is None else limit

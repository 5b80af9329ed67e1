"""Staleness of trainings: changes since a preset was trained, and the weights that it reads.

The present configuration is compared with ``settings.json`` beside the weights, so that it also
works for copied results.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Literal

from vrtspike.config.loading import check_training
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import TrainSettings
from vrtspike.config.seeds import split_seed
from vrtspike.config.workflow import Workflow
from vrtspike.io.flatten import unequal
from vrtspike.io.pretrained import PUBLISHED
from vrtspike.runs.code import code_changes
from vrtspike.runs.identity import RunIdentity, result_settings, weight_digests
from vrtspike.runs.names import WEIGHTS
from vrtspike.system.errors import ConfigError, UserError, first_few

_DATA_PARTS = len(Path("dataset/bins/dataset.json").parts)
"""Number of last parts of a manifest's path that identify the data set."""


Origin = Literal["trained", "downloaded", "given"]
"""Whether jobs of this workflow train or download weights, or the user gives them."""


class Trainings:
    """The trainings of a configuration.

    Args:
        workflow: the configuration.
        program: ``scripts/train.py``.
    """

    def __init__(self, workflow: Workflow, program: Path) -> None:
        self._workflow = workflow
        self._program = program
        # A plan asks for the same files many times.
        self._digest = cache(lambda key, path: weight_digests({key: path})[key])

    def result(self, preset: str) -> Path:
        """Folder of a preset's published result."""
        return Path(self._workflow.settings.RESULTS) / "train" / preset

    def is_trained(self, preset: str) -> bool:
        """Whether there is a result, stale or not."""
        return (self.result(preset) / WEIGHTS).is_file()

    def weights(self, preset: str, origin: Origin) -> dict[str, Path]:
        """The files of weights of one origin that a preset's training reads, by key."""
        settings = self._workflow.preset(preset)
        trained = {self.result(name) / WEIGHTS for name in self._workflow.trainings}
        found: dict[str, Path] = {}
        for key, path in find_problem(settings.TASK).training_weights(settings).items():
            other: Origin = "downloaded" if path.name in PUBLISHED else "given"
            if origin == ("trained" if path in trained else other):
                found[key] = path
        return found

    def require_files(self, preset: str, *, retrain: bool = False) -> None:
        """Refuse missing files and packages of a training that will run and that no job makes.

        Args:
            preset: its name.
            retrain: whether it is trained again in any case.

        Raises:
            ConfigError: naming keys and paths, or if a training needs its own result.
        """
        self._require_order([preset])
        if not (retrain or not self.is_trained(preset) or self.change(preset)):
            return
        check_training(self._workflow.preset(preset), preset, self.weights(preset, "given"))

    def _require_order(self, chain: list[str]) -> None:
        """Refuse a training that needs its own result, directly or through others.

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

    def change(self, preset: str) -> str:
        """Changes of settings, data and weights since a preset was trained.

        Missing files of weights, and data that are not prepared, count as unchanged.

        Returns:
            the changes in a line; empty if there are none, or no run.

        Raises:
            RunError: if a result does not say what it was trained with: training again, which
                would remove its weights, is left to the user.
        """
        if not self.is_trained(preset):
            return ""
        run = RunIdentity.read(self.result(preset))
        settings = (run.settings, self._workflow.preset(preset))
        differing = unequal(*map(result_settings, settings))
        changes = [f"{key} {then} -> {now}" for key, (then, now) in sorted(differing.items())]
        before, data = Path(run.dataset), self._workflow.manifest(preset)
        try:
            digest = find_problem(self._workflow.preset(preset).TASK).dataset_digest(data)
            changes += ["the data have changed"] if digest != run.dataset_digest else []
        except UserError:  # they are not prepared
            if before.parts[-_DATA_PARTS:] != data.parts[-_DATA_PARTS:]:
                changes.append("another data set")
        changes += [
            f"{key}: other weights"
            for key, path in self.weights(preset, "given").items()
            if (self._digest(key, path) if path.is_file() else run.weights.get(key, ""))
            != run.weights.get(key)
        ]
        return ", ".join(changes)

    def continuation_notice(self, preset: str) -> str | None:
        """A notice on how to go on from a finished run that should be longer; None where it is not.

        Args:
            preset: its name; settings that differ from the run's start another one.
        """
        if not self.is_trained(preset):
            return None
        before = RunIdentity.read(self.result(preset)).settings
        now = self._workflow.preset(preset)
        if before.kept_start is not None:
            return None
        longer = [
            name
            for name in ("MAX_STEPS", "EPOCHS")
            if _limit(now.TRAIN, name) > _limit(before.TRAIN, name)
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
        """The files of code that have changed since a preset was trained; None if not known."""
        return code_changes(self.result(preset), self._program, self._workflow.preset(preset).TASK)

    def code_notice(self, preset: str) -> str | None:
        """A notice on code that has changed since a preset was trained; None if none is known."""
        changed = self.changed_code(preset)
        if not changed:
            return None
        return (
            f"{preset} was trained by other code: {first_few(changed)}. Its weights "
            f"stay; to train it again: snakemake train_{preset} --config RETRAIN={preset}"
        )


def _limit(train: TrainSettings, name: str) -> float:
    """The value of MAX_STEPS or EPOCHS; infinite for null."""
    limit: int | None = getattr(train, name)
    return math.inf if limit is None else limit


def retrained(workflow: Workflow) -> frozenset[str]:
    """The trainings that RETRAIN names, with all seeds.

    Args:
        workflow: RETRAIN names presets and sweeps.
    """
    named = {*workflow.settings.RETRAIN}
    named |= {m for name in named & workflow.sweeps.keys() for m in workflow.sweeps[name].members}
    return frozenset(name for name in workflow.trainings if named & {name, split_seed(name)[0]})

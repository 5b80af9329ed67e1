"""The configuration of the workflow: presets, sweeps, and the trainings that they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from vrtspike.config.ablations import Variant
from vrtspike.config.loading import derive_variant, require_ablation
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.seed_names import seed_names
from vrtspike.config.sweeps import Sweep
from vrtspike.config.tasks import find_task, has_part
from vrtspike.config.workflow_schema import WorkflowSettings
from vrtspike.system.errors import ConfigError

MANIFEST = "dataset.json"
"""The manifest of prepared data, in their folder."""


class TrainingSource(NamedTuple):
    """Source of the settings of a training.

    Attributes:
        origin: preset file, or member of a sweep.
        first_seed: name of the training of the first seed.
        variant: variant of the ablation; None for the preset itself.
        seed: number that is added to SEED.
    """

    origin: str
    first_seed: str
    variant: Variant | None
    seed: int


@dataclass(frozen=True)
class WorkflowConfig:
    """The configuration that the Snakefile uses.

    Attributes:
        settings: settings of ``config/config.yaml``.
        presets: presets of the files in PRESET_DIR and of the workflow, by name; without variants
            of ablations.
        broken: error messages of invalid preset files, by name. Targets that do not need them
            still run.
        sweeps: sweeps by name, valid or not.
        preset_notes: messages on presets that replace those of the workflow.
    """

    settings: WorkflowSettings
    presets: Mapping[str, RunSettings]
    broken: Mapping[str, str] = field(default_factory=dict)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)
    preset_notes: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """Messages on replaced presets, and on invalid presets and sweeps, one for each error."""
        presets: dict[str, list[str]] = {}
        for name, error in self.broken.items():
            presets.setdefault(error, []).append(name)
        notes = [*self.preset_notes]
        notes += [
            f"preset {', '.join(names)} cannot be used, others can:\n{error}"
            for error, names in presets.items()
        ]
        for sweep in self.sweeps.values():
            if sweep.error:
                notes.append(f"a sweep cannot be used:\n{sweep.error}")
        return notes

    @property
    def preset_names(self) -> list[str]:
        """Names of all preset files, valid or not."""
        return sorted([*self.presets, *self.broken])

    @cached_property
    def trainings(self) -> dict[str, TrainingSource]:
        """All trainings by the names that :meth:`settings_of` accepts.

        These are the trainings of preset files, their variants and sweeps, with all seeds.

        Raises:
            ConfigError: if a preset file has the name of a training derived from another one.
        """
        trainings: dict[str, TrainingSource] = {}
        for name, training in self._named_trainings():
            if name in trainings:
                raise ConfigError(
                    f"{Path(self.settings.PRESET_DIR, name)}.yaml: {name} is also the name of a "
                    "preset derived from another one; rename the file"
                )
            trainings[name] = training
        return trainings

    def _named_trainings(self) -> Iterator[tuple[str, TrainingSource]]:
        """Yield names and sources of all trainings; of invalid presets only the preset itself."""
        for origin in self.broken:
            if origin not in self.every_preset:
                yield origin, TrainingSource(origin, origin, None, 0)
        for origin, settings in self.every_preset.items():
            variants: list[Variant | None] = [None]
            if origin in self.presets and settings.ablation is not None:
                variants += settings.ablation.variants
            for variant in variants:
                first = origin if variant is None else origin + variant.suffix
                for index, name in enumerate(seed_names(first, settings.seeds)):
                    yield name, TrainingSource(origin, first, variant, index)

    def seeds(self, *presets: str) -> list[str]:
        """Return the trainings of presets with all their seeds; for one seed only itself."""
        names = []
        for preset in presets:
            for name, training in self.trainings.items():
                if preset in (name, training.first_seed):
                    names.append(name)
        return names

    @property
    def presets_with_seeds(self) -> list[str]:
        """Presets with several seeds."""
        return [name for name, settings in self.presets.items() if settings.seeds > 1]

    def sweep(self, name: str) -> Sweep:
        """Return a sweep by its name.

        Raises:
            ConfigError: if its file or its base is invalid.
        """
        sweep = self.sweeps[name]
        if sweep.error:
            raise ConfigError(sweep.error)
        return sweep

    @cached_property
    def every_preset(self) -> dict[str, RunSettings]:
        """The presets of files and of sweeps, each of which may have other data."""
        presets = dict(self.presets)
        for sweep in self.sweeps.values():
            presets |= sweep.members
        return presets

    @property
    def presets_with_ablation(self) -> list[str]:
        """Presets with an ablation, and invalid ones."""
        return [
            name for name in self.preset_names if name in self.broken or self.presets[name].ablation
        ]

    def variant_names(self, preset: str) -> list[str]:
        """Return the names of a preset's variants.

        Raises:
            ConfigError: if the preset is invalid, or its task has no ablation.
        """
        return require_ablation(preset, self.settings_of(preset)).names(preset)

    def ablation_trainings(self, presets: Sequence[str]) -> list[str]:
        """Return the trainings of presets and of their variants, with all seeds.

        Raises:
            ConfigError: as :meth:`variant_names`, or if a variant is invalid.
        """
        trainings = []
        for preset in presets:
            for name in (preset, *self.variant_names(preset)):
                trainings += self.seeds(name)
        # Invalid variants are errors before anything is computed.
        for name in trainings:
            self.settings_of(name)
        return trainings

    def settings_of(self, name: str) -> RunSettings:
        """Return the settings of a preset, a variant, a sweep's member, or of another seed.

        Raises:
            ConfigError: if there is no such preset, or its file or variant is invalid.
        """
        training = self.trainings.get(name)
        if training is None:
            raise ConfigError(f"no preset {name!r}; there are: {', '.join(self.presets)}")
        if training.origin in self.broken:
            raise ConfigError(self.broken[training.origin])
        settings = self.every_preset[training.origin]
        if training.variant is not None:
            settings = derive_variant(training.origin, settings, training.variant)
        return settings.model_copy(update={"SEED": settings.SEED + training.seed})

    @cached_property
    def preset_by_data_folder(self) -> dict[str, str]:
        """A preset for each data folder of the rule ``prepare``, by the folder's name."""
        presets: dict[str, str] = {}
        for name, settings in self.every_preset.items():
            task = find_task(settings.TASK)
            if has_part(task, "prepare"):
                presets.setdefault(task.data_folder(settings), name)
        return presets

    def is_prepared(self, preset: str) -> bool:
        """Return whether the rule ``prepare`` makes the data of a preset.

        Raises:
            ConfigError: as :meth:`settings_of`.
        """
        return has_part(find_task(self.settings_of(preset).TASK), "prepare")

    def raw_files(self, preset: str) -> list[Path]:
        """Return the raw files of a preset's prepared data; empty for a task with its own stages.

        Raises:
            UserError: as :meth:`settings_of`, or if there are no raw files.
        """
        settings = self.settings_of(preset)
        task = find_task(settings.TASK)
        return list(task.data_files(settings)) if has_part(task, "prepare") else []

    def evaluation_weights(self, preset: str) -> list[Path]:
        """Return the files of weights that the metrics of a preset's evaluation use.

        Raises:
            ConfigError: as :meth:`settings_of`.
        """
        settings = self.settings_of(preset)
        return list(find_task(settings.TASK).evaluation_weights(settings).values())

    def manifest(self, preset: str) -> Path:
        """Return the path of the manifest of a preset's prepared data.

        Raises:
            ConfigError: as :meth:`settings_of`.
        """
        settings = self.settings_of(preset)
        folder = find_task(settings.TASK).data_folder(settings)
        return Path(self.settings.RESULTS) / "data" / folder / MANIFEST

"""The presets of deblurring in a configuration, and the data sets that they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from vrtspike.config.workflow import WorkflowConfig
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.clips.requirements import crop_sizes
from vrtspike.data.data_source import DataKind, DataSource
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.deblurring_settings.workflow_settings import DeblurringWorkflowSettings
from vrtspike.system.errors import ConfigError


@dataclass(frozen=True)
class DeblurringConfig:
    """The part of the configuration that concerns deblurring.

    Attributes:
        workflow: configuration of all tasks.
    """

    workflow: WorkflowConfig

    @property
    def settings(self) -> DeblurringWorkflowSettings:
        """The sections of ``config/config.yaml`` on its data."""
        return cast("DeblurringWorkflowSettings", self.workflow.settings)

    @property
    def results(self) -> Path:
        """Folder of the results."""
        return Path(self.workflow.settings.RESULTS)

    def data_folder(self, dataset_name: str) -> Path:
        """Return the folder of a data set's results."""
        return self.results / "data" / dataset_name

    @cached_property
    def presets(self) -> dict[str, DeblurringSettings]:
        """The presets of deblurring, those of sweeps included, by name."""
        return {
            name: settings
            for name, settings in self.workflow.every_preset.items()
            if isinstance(settings, DeblurringSettings)
        }

    def settings_of(self, name: str) -> DeblurringSettings:
        """Return a preset of deblurring.

        Raises:
            ConfigError: as :meth:`WorkflowConfig.settings_of`, or if it is one of another task.
        """
        return require_deblurring_settings(self.workflow.settings_of(name), name)

    @cached_property
    def data_source_by_preset(self) -> dict[str, DataSource]:
        """The data set of each preset of a file or sweep."""
        return {name: self._data_source_of(settings) for name, settings in self.presets.items()}

    @property
    def dataset_names(self) -> list[str]:
        """The names of all data sets."""
        return list(dict.fromkeys(dataset.name for dataset in self.data_source_by_preset.values()))

    def dataset_names_of(self, presets: Iterable[str]) -> list[str]:
        """Return the sorted names of the data sets of presets; other tasks' presets have none."""
        names = {self.data_source(preset).name for preset in presets if preset in self.presets}
        return sorted(names)

    def require_results_elsewhere(self, data_source: DataSource) -> None:
        """Reject a folder of results within a data set provided by the user.

        Raises:
            ConfigError: naming both folders.
        """
        if data_source.kind != "raw":
            return
        roots = {"ROOT": data_source.root, "SPIKE_ROOT": data_source.spike_root}
        for data_key, root in roots.items():
            for key in ("RESULTS", "RUNS"):
                folder = Path(getattr(self.workflow.settings, key)).resolve()
                if root is None or not folder.is_relative_to(Path(root).resolve()):
                    continue
                parts = folder.relative_to(Path(root).resolve()).parts
                if not parts or set(data_source.splits).intersection(parts):
                    raise ConfigError(
                        f"{key} is {folder}, where the sequences of DATA.{data_key} {root} are, "
                        f"so that its folders would be taken for some; set {key} to a folder "
                        "elsewhere"
                    )

    def preset_with(self, dataset_name: str) -> str:
        """Return one of the presets whose data set has a name.

        Raises:
            ConfigError: if presets use the name for different data.
        """
        presets = [
            name
            for name, source in self.data_source_by_preset.items()
            if source.name == dataset_name
        ]
        first, *others = presets
        for preset in others:
            self.require_same_data(preset, first)
        return first

    def require_same_data(self, preset: str, other: str) -> None:
        """Reject presets whose different data would have one name.

        Raises:
            ConfigError: as :meth:`settings_of`, or naming both and the key that differs.
        """
        data_source = vars(self.data_source(preset))
        other_source = vars(self.data_source(other))
        for key, value in data_source.items():
            if value != other_source[key]:
                raise ConfigError(
                    f"preset {preset}: data of DATA.{key.upper()} {value!r} and, in preset "
                    f"{other}, {other_source[key]!r} would both be called "
                    f"{data_source['name']!r}; choose one, or rename one of two folders, or use "
                    "another RESULTS folder"
                )

    def data_source(self, preset: str) -> DataSource:
        """Return the data set that a preset of deblurring takes, derived ones included.

        Raises:
            ConfigError: as :meth:`settings_of`.
        """
        return self._data_source_of(self.settings_of(preset))

    def store_options(self, preset: str, bins: int) -> StoreOptions:
        """Return the options of the stores of a data set.

        Presets with other options than these, the bins apart, have data sets of other names.

        Args:
            preset: a preset with the data set.
            bins: K.
        """
        data = self.settings_of(preset).DATA
        return StoreOptions.from_settings(data).model_copy(update={"bins": bins})

    def accept_options(self, preset: str, bins: int) -> AcceptOptions:
        """Return what acceptance requires: the smallest clips that presets take of a data set.

        Presets that train nothing count only if there are no others.

        Args:
            preset: a preset with the data set.
            bins: K.
        """
        data_source = self.data_source(preset)
        presets = [
            settings
            for name, settings in self.presets.items()
            if self.data_source_by_preset[name] == data_source
        ]
        trained = [settings for settings in presets if settings.unchanged_weights is None]
        if trained:
            presets = trained
        return AcceptOptions(
            stores=self.store_options(preset, bins),
            clip_length=min(settings.DATA.CLIP_LEN for settings in presets),
            crop_sizes=crop_sizes(presets),
            splits=data_source.splits,
            test_on_training_frames=data_source.test_on_training_frames,
            on_error=data_source.on_error,
        )

    def _data_source_of(self, settings: DeblurringSettings) -> DataSource:
        """Return the data set of the settings of a preset."""
        data = settings.DATA
        sections = self.settings
        simulated = [
            f"sources/{source.SPLIT}/{source.SEQUENCE}.txt"
            for source in sections.SIMULATE.SEQUENCES
        ]
        generated: dict[str, tuple[DataKind, list[str]]] = {
            sections.DEMO.ROOT: ("demo", ["sources.txt"]),
            sections.GENERAL.ROOT: ("general", ["sources.txt"]),
            sections.SIMULATE.ROOT: ("simulated", simulated),
        }
        if sections.CALIBRATE.DATA is not None:
            generated[sections.CALIBRATE.ROOT] = ("calibrated", ["calibrated.txt"])
        kind, files = generated.get(data.ROOT, ("raw", []))
        sources = tuple(f"{data.ROOT}/{file}" for file in files)
        return DataSource(
            name=settings.dataset_name,
            root=data.ROOT,
            blur_dir=data.BLUR_DIR,
            train_split=data.TRAIN_SPLIT,
            test_split=data.TEST_SPLIT,
            spike_size=data.SPIKE_SIZE,
            layout=data.LAYOUT,
            on_error=data.ON_ERROR,
            kind=kind,
            test_on_training_frames=data.TEST_ON_TRAINING_FRAMES,
            spike_root=data.SPIKE_ROOT,
            sources=sources,
        )

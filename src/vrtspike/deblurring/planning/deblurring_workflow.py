"""The presets of deblurring in a configuration, and the data sets that they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

from vrtspike.config.workflow import Workflow
from vrtspike.data.data_source import DataKind, DataSource
from vrtspike.settings import Settings, deblurring_settings
from vrtspike.settings.generated_data import DeblurringWorkflowSettings
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import ConfigError


@dataclass(frozen=True)
class DeblurringWorkflow:
    """A configuration as far as deblurring is concerned.

    Attributes:
        workflow: configuration of all tasks.
        _needed: presets that targets need, each by the name of its data set.
    """

    workflow: Workflow
    _needed: dict[str, str] = field(default_factory=dict)

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
    def presets(self) -> dict[str, Settings]:
        """The presets of the deblurring, those of sweeps included, by name."""
        return {
            name: settings
            for name, settings in self.workflow.every_preset.items()
            if isinstance(settings, Settings)
        }

    def preset(self, name: str) -> Settings:
        """Return a preset of the deblurring.

        Raises:
            ConfigError: as :meth:`Workflow.preset`, or if it is one of another task.
        """
        return deblurring_settings(self.workflow.preset(name), name)

    @cached_property
    def by_preset(self) -> dict[str, DataSource]:
        """The data set of each preset of a file or sweep."""
        return {name: self._data_source_of(settings) for name, settings in self.presets.items()}

    @property
    def dataset_names(self) -> list[str]:
        """The names of all data sets."""
        return list(dict.fromkeys(dataset.name for dataset in self.by_preset.values()))

    def names_of(self, presets: Iterable[str]) -> list[str]:
        """Return the sorted names of the data sets of presets; other tasks' presets have none."""
        names = {self.data_source(preset).name for preset in presets if preset in self.presets}
        return sorted(names)

    def require_data_source(self, preset: str, *, others_may_differ: bool) -> DataSource:
        """Return the data set of a preset that a target needs.

        Args:
            preset: name of the preset.
            others_may_differ: if true, presets that no target needs may have other data of the same
                name.

        Raises:
            ConfigError: as :meth:`preset`, or if the data of another preset, which a target needs
                as well, would have the same name.
        """
        data_source = self.data_source(preset)
        self._require_results_elsewhere(data_source)
        former = self._needed.setdefault(data_source.name, preset)
        self._require_same(preset, former)
        if not others_may_differ:
            self._require_unambiguous(data_source.name)
        return data_source

    def _require_results_elsewhere(self, data_source: DataSource) -> None:
        """Refuse results among the sequences of a data set that the user fills."""
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

    def data_source_named(self, name: str) -> DataSource:
        """Return a data set by its name: that of the presets that targets need.

        Raises:
            ConfigError: if no target has named a preset, and two presets call different data so.
        """
        return self.data_source(self._preset_with(name))

    def store_options(self, dataset_name: str, bins: int) -> StoreOptions:
        """Return the options of the stores of a data set.

        Presets with other options than these, the bins apart, have data sets of other names.

        Args:
            dataset_name: name of the data set.
            bins: K.

        Raises:
            ConfigError: as :meth:`data_source_named`.
        """
        data = self.preset(self._preset_with(dataset_name)).DATA
        return StoreOptions.of(data).model_copy(update={"bins": bins})

    def _preset_with(self, dataset_name: str) -> str:
        """Return a preset with the data set of a name: one that targets need, if any."""
        if dataset_name in self._needed:
            return self._needed[dataset_name]
        return self._require_unambiguous(dataset_name)

    def _require_unambiguous(self, name: str) -> str:
        """Return one of the presets whose data have a name; their data must be the same."""
        presets = [preset for preset, dataset in self.by_preset.items() if dataset.name == name]
        first, *others = presets
        for preset in others:
            self._require_same(preset, first)
        return first

    def _require_same(self, preset: str, other: str) -> None:
        """Refuse presets whose different data would have one name."""
        data_source = vars(self.data_source(preset))
        other_dataset = vars(self.data_source(other))
        for key, value in data_source.items():
            if value != other_dataset[key]:
                raise ConfigError(
                    f"preset {preset}: data of DATA.{key.upper()} {value!r} and, in preset "
                    f"{other}, {other_dataset[key]!r} would both be called "
                    f"{data_source['name']!r}; "
                    "choose one, or rename one of two folders, or use another RESULTS folder"
                )

    def data_source(self, preset: str) -> DataSource:
        """Return the data set that a preset of the deblurring takes, derived ones included.

        Raises:
            ConfigError: as :meth:`preset`.
        """
        return self._data_source_of(self.preset(preset))

    def _data_source_of(self, settings: Settings) -> DataSource:
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

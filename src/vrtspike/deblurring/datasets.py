"""The presets of deblurring in a configuration, and the data sets that they take."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import cast

from vrtspike.config.workflow import Workflow
from vrtspike.deblurring.settings import Settings, deblurring_settings
from vrtspike.deblurring.settings.workflow import VideoWorkflow
from vrtspike.system.errors import ConfigError


@dataclass(frozen=True)
class Dataset:
    """A data source as a preset uses it; equal sources share every stage up to training.

    All but ``name``, ``kind`` and ``sources`` are keys of DATA.
    """

    name: str
    root: str
    blur_dir: str
    train_split: str
    val_split: str
    spike_size: tuple[int, int] | None
    layout: str
    on_error: str
    kind: str
    """``raw`` of a folder that users fill; else what generates it."""
    test_on_training_frames: bool = False
    spike_root: str | None = None
    context_steps: int = 0
    sources: tuple[str, ...] = ()
    """Files that are written when the data are generated, of simulated ones one a sequence."""


@dataclass(frozen=True)
class DeblurringWorkflow:
    """A configuration as far as deblurring is concerned.

    Attributes:
        workflow: the configuration.
    """

    workflow: Workflow

    @property
    def settings(self) -> VideoWorkflow:
        """The sections of ``config/config.yaml`` on its data."""
        return cast("VideoWorkflow", self.workflow.settings)

    @property
    def results(self) -> Path:
        """Where results are written."""
        return Path(self.workflow.settings.RESULTS)

    @cached_property
    def presets(self) -> dict[str, Settings]:
        """The presets of the deblurring, those of sweeps included, by name."""
        return {
            n: settings
            for n, settings in self.workflow.every_preset.items()
            if isinstance(settings, Settings)
        }

    def preset(self, name: str) -> Settings:
        """A preset of the deblurring.

        Raises:
            ConfigError: as :meth:`Workflow.preset`, or if it is one of another problem.
        """
        return deblurring_settings(self.workflow.preset(name), name)

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """All data sets by name.

        Raises:
            ConfigError: if two different sources would share a name.
        """
        result: dict[str, Dataset] = {}
        for preset in self.presets:
            dataset = self.dataset(preset)
            known = result.setdefault(dataset.name, dataset)
            if other := next((k for k, v in vars(dataset).items() if v != vars(known)[k]), None):
                raise ConfigError(
                    f"preset {preset}: data of DATA.{other.upper()} {vars(dataset)[other]!r} and "
                    f"{vars(known)[other]!r} would both be called {dataset.name!r}; choose one, or "
                    "rename one of two folders, or use another RESULTS folder"
                )
        return result

    def dataset(self, preset: str) -> Dataset:
        """The data set that a preset of the deblurring takes, derived ones included.

        Raises:
            ConfigError: as :meth:`preset`.
        """
        settings, own = self.preset(preset), self.settings
        data = settings.DATA
        simulated = [f"sources/{each.SPLIT}/{each.SEQUENCE}.txt" for each in own.SIMULATE.SEQUENCES]
        generated = {
            own.DEMO.ROOT: ("demo", ["sources.txt"]),
            own.SIMULATE.ROOT: ("simulated", simulated),
        }
        if own.CALIBRATE.DATA is not None:
            generated[own.CALIBRATE.ROOT] = ("calibrated", ["calibrated.txt"])
        kind, files = generated.get(data.ROOT, ("raw", []))
        sources = tuple(f"{data.ROOT}/{file}" for file in files)
        names = {each.name for each in fields(Dataset)} - {"name", "kind", "sources"}
        keys = {name: getattr(data, name.upper()) for name in names}
        return Dataset(name=settings.dataset_name, kind=kind, sources=sources, **keys)

"""What to run: data sources, presets and the machine (``config/config.yaml`` and overlays)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator

from vrtspike.config.ablation import derive, derived_names, split_name
from vrtspike.config.checking import known_keys, validate
from vrtspike.config.fields import (
    NonNegative,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
)
from vrtspike.config.loading import read_preset, settings_class, settings_from
from vrtspike.config.merging import canonical, overlay, parse_overrides, section
from vrtspike.config.reading import Document, given_document, read_yaml
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.schema import Settings, deblurring_settings
from vrtspike.errors import ConfigError
from vrtspike.problems import DEFAULT, PROBLEMS, find_problem

MANIFEST = "dataset.json"
"""The manifest of prepared data, in their folder."""
_ADVICE = "The keys of config/config.yaml are explained in config/README.md."


class DemoSettings(Section):
    """The generated data set."""

    ROOT: str = operational("Where it is generated", "data/demo")
    SEED: NonNegative = key("Seed of the simulated camera", 0)


class SimulatedSequence(Section):
    """One folder of high-frame-rate frames turned into blurry frames and spikes."""

    FRAMES: str = key("Folder of PNG frames in order")
    SPLIT: str = key("Split the sequence belongs to", min_length=1)
    SEQUENCE: str = key("Name of the sequence", min_length=1)
    FRAMES_PER_EXPOSURE: Positive = key("Frames averaged into one blurry frame", 11)


class SimulateSettings(Section):
    """Frames without a spike camera, sent through the simulators."""

    ROOT: str = operational("Data set that is written", "data/simulated")
    SEQUENCES: tuple[SimulatedSequence, ...] = key("What to simulate", ())
    STEPS_PER_FRAME: Positive = key("Spike steps per source frame", 8)
    THETA: PositiveFloat = key("Firing threshold in units of full intensity", 2.0)
    GAMMA: PositiveFloat | None = key("Average in linear light of this gamma; null: as coded", None)
    SEED: NonNegative = key("Seed of the initial voltages", 0)
    INTERPOLATION: Literal["linear", "flow"] = key(
        "What the sensor sees between frames: a mixture of them, or moved by optical flow", "linear"
    )


class ShareSettings(Section):
    """How many sequences a job of ``ingest`` and ``voxelize`` takes."""

    SEQUENCES: Positive = operational("Most sequences of a job, on the average", 128)
    GB: PositiveFloat = operational("Most gigabytes of their raw files, on the average", 32.0)


class WorkflowSettings(Section):
    """``config/config.yaml``."""

    PRESETS: tuple[str, ...] = operational(
        "Presets that all, compare, report and ablation cover", ("baseline",)
    )
    PRESET_DIR: str = operational("Folder of the presets", "config/presets")
    RESULTS: str = operational("Where results are written", "results")
    RUNS: str = operational("Where training runs keep their state", "runs")
    GPUS: NonNegative | Literal["auto"] = operational(
        "GPUs per training run and machine; auto: all free ones (a Slurm job asks for one), 0: CPU",
        "auto",
    )
    NODES: Positive = operational("Machines per training run; several: nodes of a Slurm job", 1)
    DATA: dict[str, Any] = operational(
        "DATA keys of every preset of the deblurring that does not set them itself", {}
    )
    SETTINGS: dict[str, Any] = operational("Keys laid over every preset", {})
    SET: str | tuple[str, ...] = operational(
        "The same as KEY=value, separated by spaces; none within a value: [2,8,8]", ""
    )
    RETRAIN: tuple[str, ...] = operational(
        "Presets to train again if their code has changed (as --forcerun train_<preset>)", ()
    )
    WEIGHTS_URL: str | None = operational(
        "Address of the folder that published weights are fetched from; null: where they are "
        "published",
        None,
    )
    SHARES: ShareSettings = key("Jobs that work through many sequences", ShareSettings())
    DEMO: DemoSettings = key("The generated data set", DemoSettings())
    SIMULATE: SimulateSettings = key("Simulated data", SimulateSettings())

    @field_validator("PRESETS", "RETRAIN", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        """``--config PRESETS=demo`` gives a text; names stand between spaces or commas."""
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


@dataclass(frozen=True)
class Dataset:
    """A data source as a preset uses it; equal sources share every stage up to training."""

    name: str
    root: str
    blur_dir: str
    train_split: str
    val_split: str
    spike_size: tuple[int, int] | None
    layout: str
    on_error: str
    kind: Literal["raw", "demo", "simulated"]


@dataclass(frozen=True)
class Workflow:
    """Everything the Snakefile needs to know, read once.

    Attributes:
        settings: of ``config/config.yaml``.
        presets: those of the folder, by name; what ablations derive from them is not among them,
            so that it is no target of its own and asks nothing of data.
        broken: presets of the folder that cannot be used, with the message that says why. What
            does not need them goes on without.
    """

    settings: WorkflowSettings
    presets: Mapping[str, RunSettings]
    broken: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder_names(self) -> list[str]:
        """The presets of the folder, whether they can be used or not."""
        return sorted([*self.presets, *self.broken])

    @property
    def names(self) -> list[str]:
        """Every name that :meth:`preset` may be asked for."""
        others = {name for name in self.presets if name not in self.videos}
        return [
            name
            for preset in self.folder_names
            for name in (preset, *(() if preset in others else derived_names(preset)))
        ]

    def preset(self, name: str) -> RunSettings:
        """A preset of the folder, or one that its ablation derives from it.

        Raises:
            ConfigError: if there is no such preset, its file is wrong, or nothing can be derived
                from it.
        """
        base, variant = split_name(name)
        if name in self.presets:
            return self.presets[name]
        for asked in (name, base):
            if asked in self.broken:
                raise ConfigError(self.broken[asked])
        if variant is None or base not in self.presets:
            raise ConfigError(f"no preset {name!r}; there are: {', '.join(self.presets)}")
        return derive(base, self.video_preset(base), variant)

    @cached_property
    def videos(self) -> dict[str, Settings]:
        """The presets of the deblurring, by name."""
        return {name: s for name, s in self.presets.items() if isinstance(s, Settings)}

    @cached_property
    def prepared(self) -> dict[str, str]:
        """The presets whose data the rule ``prepare`` prepares, by the folder of these data.

        Presets that share a folder make the same data; one stands for all.
        """
        found: dict[str, str] = {}
        for name, settings in self.presets.items():
            problem = find_problem(settings.TASK)
            if not problem.OWN_STAGES:
                found.setdefault(problem.data_folder(settings), name)
        return found

    def video_preset(self, name: str) -> Settings:
        """A preset of the deblurring.

        Raises:
            ConfigError: as :meth:`preset`, or if it is one of another problem.
        """
        return deblurring_settings(self.preset(name), name)

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """All data sets of videos by name.

        Raises:
            ConfigError: if two different sources would share a name.
        """
        result: dict[str, Dataset] = {}
        for preset in self.videos:
            dataset = self.dataset(preset)
            known = result.setdefault(dataset.name, dataset)
            if known != dataset:
                raise ConfigError(
                    f"preset {preset}: DATA.ROOT {dataset.root!r} and {known.root!r} would both "
                    f"be called {dataset.name!r}; rename one of the folders, or use "
                    "another RESULTS folder"
                )
        return result

    def dataset(self, preset: str) -> Dataset:
        """The videos that a preset of the deblurring takes, derived ones included.

        Raises:
            ConfigError: as :meth:`video_preset`.
        """
        settings = self.video_preset(preset)
        data = settings.DATA
        kinds: dict[str, Literal["demo", "simulated"]] = {
            self.settings.DEMO.ROOT: "demo",
            self.settings.SIMULATE.ROOT: "simulated",
        }
        return Dataset(
            name=Path(find_problem(DEFAULT).data_folder(settings)).parts[0],
            root=data.ROOT,
            blur_dir=data.BLUR_DIR,
            train_split=data.TRAIN_SPLIT,
            val_split=data.VAL_SPLIT,
            spike_size=data.SPIKE_SIZE,
            layout=data.LAYOUT,
            on_error=data.ON_ERROR,
            kind=kinds.get(data.ROOT, "raw"),
        )

    def manifest(self, preset: str) -> Path:
        """Where the manifest of the prepared data of a preset stands.

        Raises:
            ConfigError: as :meth:`preset`.
        """
        settings = self.preset(preset)
        folder = find_problem(settings.TASK).data_folder(settings)
        return Path(self.settings.RESULTS) / "data" / folder / MANIFEST


def load_workflow(
    configfiles: Sequence[str | Path], overrides: Mapping[str, Any] | None = None
) -> Workflow:
    """Read the configuration files in order (later ones win) and every preset.

    Args:
        configfiles: ``config/config.yaml`` and the overlays named by ``--configfile``.
        overrides: what ``--config`` gave, as a mapping of top-level keys.

    Raises:
        ConfigError: naming file, line, key, what was found and what is allowed.
    """
    document = Document({})
    for path in configfiles:
        document = overlay(document, read_yaml(path))
    document = overlay(document, given_document(dict(overrides or {}), "--config"))
    settings = validate(WorkflowSettings, document, _ADVICE)
    files = _preset_files(Path(settings.PRESET_DIR))
    _require_presets(settings, document, files)
    pieces = settings.SET.split() if isinstance(settings.SET, str) else list(settings.SET)
    above = canonical(overlay(section(document, "SETTINGS"), parse_overrides(pieces, "SET")))
    beneath = section(document, "DATA", nested=True)
    presets: dict[str, RunSettings] = {}
    broken: dict[str, str] = {}
    for name, path in files.items():
        try:
            own = read_preset(path)
            kind = settings_class(own)
            if kind is Settings:
                own = overlay(beneath, own)
            presets[name] = settings_from(overlay(own, concerning(above, kind)))
        except ConfigError as error:
            broken[name] = str(error)
    if not presets:
        # What all of them have in common is most often wrong: SETTINGS, SET or DATA.
        raise ConfigError(_each_line_once(broken.values()))
    return Workflow(settings, presets, broken)


def concerning(document: Document, kind: type[RunSettings]) -> Document:
    """What of keys that are laid over every preset concerns those of one problem.

    A key that another problem has and this one has not is left out; one that none has stays, so
    that it is refused.

    Args:
        document: the keys.
        kind: the presets of the problem.
    """
    own = set(known_keys(kind))
    others = {path for name in PROBLEMS for path in known_keys(find_problem(name).SETTINGS)} - own
    foreign = [path for path in leaf_paths(document.tree) if path in others]
    tree = copy.deepcopy(document.tree)
    for *sections, name in foreign:
        inner = tree
        for part in sections:
            inner = inner[part]
        del inner[name]
    return Document(tree, document.places)


def leaf_paths(tree: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of values that are no sections."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaf_paths(value, (*prefix, name))
        else:
            yield (*prefix, name)


def _preset_files(folder: Path) -> dict[str, Path]:
    """The files of the presets by their names."""
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not files:
        raise ConfigError(f"PRESET_DIR is {str(folder)!r}: no preset (*.yaml) stands there")
    for base in files:
        for name in derived_names(base):
            if name in files:
                raise ConfigError(
                    f"{files[name]}: {name} is what the ablation of preset {base} is called "
                    f"({files[base]}); give the file another name"
                )
    return files


def _require_presets(
    settings: WorkflowSettings, document: Document, files: Mapping[str, Path]
) -> None:
    """Refuse names of presets that are no files."""
    derived = [name for base in files for name in derived_names(base)]
    for key_name, names in (("PRESETS", files), ("RETRAIN", [*files, *derived])):
        for name in getattr(settings, key_name):
            if name not in names:
                raise ConfigError(
                    f"{document.places.get((key_name,), key_name)}: {key_name} names {name!r}; "
                    f"presets in {settings.PRESET_DIR}: {', '.join(files)}"
                )


def _each_line_once(messages: Iterable[str]) -> str:
    """Messages as one; what stands in several of them, their advice too, is said once, last."""
    lines = [line for message in messages for line in reversed(message.splitlines())]
    return "\n".join(reversed(dict.fromkeys(lines)))

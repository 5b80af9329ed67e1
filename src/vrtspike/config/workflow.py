"""The configuration of the workflow: ``config/config.yaml``, its overlays, presets and sweeps."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vrtspike.config.ablations import Variant
from vrtspike.config.checking import fields_of, validate
from vrtspike.config.documents import (
    Document,
    KeyPath,
    document_of,
    parse_overrides,
    read_overrides,
    read_yaml,
)
from vrtspike.config.loading import (
    build_settings,
    derive,
    merged,
    present_names,
    problem_name,
    read_preset,
    require_ablation,
)
from vrtspike.config.old_keys import OldKeys, canonical
from vrtspike.config.preset_files import PresetFiles, find_presets
from vrtspike.config.problems import PROBLEMS, find_problem, prepared_problem
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.seeds import seed_names
from vrtspike.config.sweeps import Sweep, read_sweep
from vrtspike.config.workflow_schema import WorkflowSettings, workflow_schema
from vrtspike.system.errors import ConfigError
from vrtspike.system.home import CONFIG, require_project

T = TypeVar("T")

MANIFEST = "dataset.json"
"""The manifest of prepared data, in their folder."""
_ADVICE = "The keys of config/config.yaml are explained in config/README.md."


class Training(NamedTuple):
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
class Workflow:
    """The configuration that the Snakefile uses.

    Attributes:
        settings: settings of ``config/config.yaml``.
        presets: presets of the files in PRESET_DIR and of the workflow, by name; without variants
            of ablations.
        broken: error messages of invalid preset files, by name. Targets that do not need them
            still run.
        sweeps: sweeps by name, valid or not.
    """

    settings: WorkflowSettings
    presets: Mapping[str, RunSettings]
    broken: Mapping[str, str] = field(default_factory=dict)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)
    preset_notices: Sequence[str] = ()

    @property
    def notices(self) -> list[str]:
        """Messages on replaced presets, and on invalid presets and sweeps, one for each error."""
        presets: dict[str, list[str]] = {}
        for name, error in self.broken.items():
            presets.setdefault(error, []).append(name)
        notices = [*self.preset_notices]
        notices += [
            f"preset {', '.join(names)} cannot be used, others can:\n{error}"
            for error, names in presets.items()
        ]
        for sweep in self.sweeps.values():
            if sweep.error:
                notices.append(f"a sweep cannot be used:\n{sweep.error}")
        return notices

    @property
    def preset_names(self) -> list[str]:
        """Names of all preset files, valid or not."""
        return sorted([*self.presets, *self.broken])

    @cached_property
    def trainings(self) -> dict[str, Training]:
        """All trainings by the names that :meth:`preset` accepts.

        These are the trainings of preset files, their variants and sweeps, with all seeds.

        Raises:
            ConfigError: if a preset file has the name of a training derived from another one.
        """
        trainings: dict[str, Training] = {}
        for name, training in self._named_trainings():
            if name in trainings:
                raise ConfigError(
                    f"{Path(self.settings.PRESET_DIR, name)}.yaml: {name} is also the name of a "
                    "preset derived from another one; rename the file"
                )
            trainings[name] = training
        return trainings

    def _named_trainings(self) -> Iterator[tuple[str, Training]]:
        """Yield names and sources of all trainings; of invalid presets only the preset itself."""
        for origin in self.broken:
            if origin not in self.every_preset:
                yield origin, Training(origin, origin, None, 0)
        for origin, settings in self.every_preset.items():
            variants: list[Variant | None] = [None]
            if origin in self.presets and settings.ablation is not None:
                variants += settings.ablation.variants
            for variant in variants:
                first = origin if variant is None else origin + variant.suffix
                for number, name in enumerate(seed_names(first, settings.seeds)):
                    yield name, Training(origin, first, variant, number)

    def seeds(self, preset: str) -> list[str]:
        """Return the trainings of a preset with all its seeds; for one seed only itself."""
        return [
            name
            for name, training in self.trainings.items()
            if preset in (name, training.first_seed)
        ]

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

    def derived(self, preset: str) -> list[str]:
        """Return the names of a preset's variants.

        Raises:
            ConfigError: if the preset is invalid, or its problem has no ablation.
        """
        return require_ablation(preset, self.preset(preset)).names(preset)

    def preset(self, name: str) -> RunSettings:
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
            settings = derive(training.origin, settings, training.variant)
        return settings.model_copy(update={"SEED": settings.SEED + training.seed})

    @cached_property
    def preset_by_data_folder(self) -> dict[str, str]:
        """A preset for each data folder of the rule ``prepare``, by the folder's name."""
        presets: dict[str, str] = {}
        for name, settings in self.every_preset.items():
            problem = prepared_problem(settings.TASK)
            if problem is not None:
                presets.setdefault(problem.data_folder(settings), name)
        return presets

    def manifest(self, preset: str) -> Path:
        """Return the path of the manifest of a preset's prepared data.

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
        overrides: values of ``--config``, as a mapping of top-level keys.

    Raises:
        ConfigError: naming file, line, key, what was found and what is allowed.
    """
    layers = [*map(read_yaml, configfiles), document_of(overrides or {}, "--config")]
    document = canonical(merged(layers), _old_keys())
    settings = validate(workflow_schema(), document, _ADVICE)
    overriding = [_below(layer, "SETTINGS") for layer in layers]
    overriding.append(_overrides_of_set(settings))
    upper_layer = merged([present_names(layer) for layer in overriding])
    lower_layers = {name: _layer_beneath(settings, document, name) for name in PROBLEMS}
    files = find_presets(Path(settings.PRESET_DIR))
    presets, broken = _read_presets(files, lower_layers, upper_layer)
    broken |= _misnamed(Path(settings.PRESET_DIR), files.trainings)
    if not presets:
        raise ConfigError(_no_preset(settings, broken))
    sweeps = _read_sweeps(Path(settings.SWEEP_DIR), presets, broken)
    workflow = Workflow(settings, presets, broken, sweeps, files.notices)
    _check_names(workflow, document, "PRESETS", workflow.preset_names)
    _check_names(workflow, document, "RETRAIN", [*workflow.trainings, *workflow.sweeps])
    return workflow


def _overrides_of_set(settings: WorkflowSettings) -> Document:
    """Return the keys of SET.

    Raises:
        ConfigError: if a key is given twice.
    """
    pieces = settings.SET.split() if isinstance(settings.SET, str) else list(settings.SET)
    overrides = parse_overrides(pieces, "SET")
    keys = [piece.partition("=")[0].strip() for piece in pieces]
    for key, count in Counter(keys).items():
        if count > 1:
            raise ConfigError(f"SET gives {key} {count} times; keep one")
    return overrides


def _read_presets(
    files: PresetFiles, lower_layers: Mapping[str, Document], upper_layer: Document
) -> tuple[dict[str, RunSettings], dict[str, str]]:
    """Return the valid presets of a project by name, and the faults of the others.

    Args:
        files: files of the presets.
        lower_layers: keys of the workflow that a preset may override, by its problem.
        upper_layer: keys that override every preset's.
    """
    presets: dict[str, RunSettings] = {}
    broken: dict[str, str] = {}
    for name, path in files.trainings.items():
        try:
            documents = read_preset(path)
            problem = problem_name(merged([*documents, upper_layer]))
            layers = [lower_layers[problem], *documents, keys_of_problem(upper_layer, problem)]
            presets[name] = build_settings(merged(layers))
        except ConfigError as error:
            broken[name] = str(error)
    return presets, broken


def _no_preset(settings: WorkflowSettings, broken: Mapping[str, str]) -> str:
    """Describe that no preset is valid: the faults, each line once, or the empty folder."""
    lines = dict.fromkeys("\n".join(broken.values()).splitlines())
    if lines:
        return "\n".join(lines)
    return (
        f"PRESET_DIR is {settings.PRESET_DIR!r}: found no preset (*.yaml) there; set it to the "
        "folder of the presets"
    )


def _read_sweeps(
    folder: Path, presets: Mapping[str, RunSettings], broken: Mapping[str, str]
) -> dict[str, Sweep]:
    """Return the sweeps of a folder by name; those of forbidden names with their fault."""
    sweeps = {
        path.stem: read_sweep(path, presets, broken) for path in sorted(folder.glob("*.yaml"))
    }
    for name, fault in _misnamed(folder, sweeps).items():
        sweeps[name] = Sweep(fault.partition(":")[0], {}, fault)
    return sweeps


def _check_names(
    workflow: Workflow, document: Document, key: str, allowed: Collection[str]
) -> None:
    """Check the presets that a key names.

    Raises:
        ConfigError: if one is named twice, or is not allowed.
    """
    place = document.places.get((key,), key)
    for preset, count in Counter(getattr(workflow.settings, key)).items():
        if count > 1:
            raise ConfigError(f"{place}: {key} names {preset!r} twice; remove one")
        if preset not in allowed:
            raise ConfigError(
                f"{place}: {key} names {preset!r}; presets in "
                f"{workflow.settings.PRESET_DIR}: {', '.join(workflow.preset_names)}"
            )


def _misnamed(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Return the error messages on files ``*.yml``, by the names that they would have as presets.

    Args:
        folder: folder of the files.
        names: names of existing presets or sweeps; files of these names are ignored.
    """
    faults = {}
    for path in sorted(folder.glob("*.yml")):
        if path.stem not in names:
            faults[path.stem] = (
                f"{path}: presets and sweeps end with .yaml; rename it: mv {path} "
                f"{path.with_suffix('.yaml')}"
            )
    return faults


def _old_keys() -> OldKeys:
    """Return the former names of keys of ``config/config.yaml``, of all problems."""
    return ChainMap(*(dict(find_problem(name).SETTINGS.workflow_old_keys) for name in PROBLEMS))


def _layer_beneath(settings: WorkflowSettings, document: Document, problem: str) -> Document:
    """Return the keys of ``config/config.yaml`` that are the lowest layer of a problem's presets.

    Args:
        settings: the contents of the file.
        document: the same with places, for messages.
        problem: name of the problem.
    """
    layer = document_of(find_problem(problem).SETTINGS.preset_defaults(settings), "")
    return present_names(Document(layer.values, document.places))


def _below(document: Document, section: str) -> Document:
    """Return the keys of a section as a document, named without the section."""
    return Document(
        _entries_below(document.values, section), _entries_below(document.places, section)
    )


def _entries_below(entries: Mapping[KeyPath, T], section: str) -> dict[KeyPath, T]:
    return {
        path[1:]: entry for path, entry in entries.items() if path[0] == section and len(path) > 1
    }


def keys_of_problem(document: Document, problem: str) -> Document:
    """Return the overrides of all presets that apply to one problem.

    Keys that only other problems have are removed. Keys that no problem has stay, so that
    validation refuses them.

    Args:
        document: overrides of all presets.
        problem: name of the problem.
    """
    keys = {name: dict(fields_of(find_problem(name).SETTINGS)).keys() for name in PROBLEMS}
    others = set().union(*keys.values()) - keys[problem]
    values = {path: value for path, value in document.values.items() if path not in others}
    return Document(values, document.places)


def read_workflow(configfiles: Sequence[Path], overrides: Sequence[str]) -> Workflow:
    """Read the configuration of the project in the working directory.

    Args:
        configfiles: overlays of ``config/config.yaml``.
        overrides: words of ``--config``.

    Raises:
        UserError: if there is no configuration here, or it is invalid.
    """
    require_project()
    return load_workflow([CONFIG, *configfiles], read_overrides(overrides).tree)

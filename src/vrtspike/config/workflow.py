"""The configuration of the workflow: ``config/config.yaml``, its overlays, presets and sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import create_model, field_validator

from vrtspike.config.aliases import Aliases, KeyPath
from vrtspike.config.checking import known_keys, validate
from vrtspike.config.documents import (
    Document,
    canonical,
    document_of_values,
    overlay,
    parse_overrides,
    read_yaml,
    section,
)
from vrtspike.config.fields import (
    NonNegative,
    Place,
    Positive,
    Section,
    operational,
)
from vrtspike.config.loading import (
    all_variant_suffixes,
    build_settings,
    derive,
    read_preset,
    require_ablation,
    task_of,
)
from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings, seed_names, split_seed
from vrtspike.config.sweeps import Sweep, read_sweep
from vrtspike.errors import ConfigError, UserError

MANIFEST = "dataset.json"
"""The manifest of prepared data, in their folder."""
_OLDER_KEYS = Aliases(renamed={("SHARES",): ("SHARDS",)})
_ADVICE = "The keys of config/config.yaml are explained in config/README.md."


class WorkflowSettings(Section):
    """``config/config.yaml``."""

    PRESETS: tuple[str, ...] = operational(
        "Presets that all, compare, report and ablation cover", ("baseline",)
    )
    PRESET_DIR: Place = operational("Folder of the presets", "config/presets")
    SWEEP_DIR: Place = operational("Folder of the sweeps; it may be absent", "config/sweeps")
    RESULTS: Place = operational("Where results are written", "results")
    RUNS: Place = operational("Where training runs keep their state", "runs")
    GPUS: NonNegative | Literal["auto"] = operational(
        "GPUs per training and machine; auto: all free ones (one in a Slurm job); 0: CPU",
        "auto",
    )
    NODES: Positive = operational("Machines per training run; several: nodes of a Slurm job", 1)
    DATA: dict[str, Any] = operational(
        "DATA keys of every deblurring preset that does not set them itself", {}
    )
    SETTINGS: dict[str, Any] = operational("Keys that override those of every preset", {})
    SET: str | tuple[str, ...] = operational(
        "The same as KEY=value, separated by spaces; none within a value: [2,8,8]", ""
    )
    RETRAIN: tuple[str, ...] = operational(
        "Presets and sweeps to train again if their code has changed", ()
    )
    WEIGHTS_URL: str | None = operational(
        "Folder from which published weights are fetched; null: where they are published",
        None,
    )

    @field_validator("PRESETS", "RETRAIN", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        """Accept a text with names between spaces or commas (``--config PRESETS=demo``)."""
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


@cache
def workflow_schema() -> type[WorkflowSettings]:
    """The schema of ``config/config.yaml`` with the sections of all problems.

    Raises:
        ConfigError: if a key is defined twice.
    """
    parts = dict.fromkeys(find_problem(task).SETTINGS.workflow for task in PROBLEMS)
    bases: Any = tuple(part for part in parts if part is not Section)
    names = Counter(name for part in (*bases, WorkflowSettings) for name in part.model_fields)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ConfigError(f"config/config.yaml: two problems define the keys {', '.join(twice)}")
    return create_model("WorkflowSettings", __base__=(*bases, WorkflowSettings))


@dataclass(frozen=True)
class Workflow:
    """The configuration that the Snakefile uses.

    Attributes:
        settings: of ``config/config.yaml``.
        presets: of the files in PRESET_DIR, by name; without variants of ablations.
        broken: error messages of invalid preset files, by name. Targets that do not need them
            still run.
        sweeps: by name.
        swept: settings of all members of sweeps, by name.
        broken_sweeps: error messages of invalid sweeps, by name.
    """

    settings: WorkflowSettings
    presets: Mapping[str, RunSettings]
    broken: Mapping[str, str] = field(default_factory=dict)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)
    swept: Mapping[str, RunSettings] = field(default_factory=dict)
    broken_sweeps: Mapping[str, str] = field(default_factory=dict)

    @property
    def notices(self) -> list[str]:
        """Messages on invalid presets and sweeps, one for each error."""
        names: dict[str, list[str]] = {}
        for name, error in self.broken.items():
            names.setdefault(error, []).append(name)
        return [
            f"preset {', '.join(alike)} cannot be used, others can:\n{error}"
            for error, alike in names.items()
        ] + [f"a sweep cannot be used:\n{error}" for error in self.broken_sweeps.values()]

    @property
    def folder_names(self) -> list[str]:
        """Names of all preset files, valid or not."""
        return sorted([*self.presets, *self.broken])

    @property
    def names(self) -> list[str]:
        """All names that :meth:`preset` accepts."""
        return list(self.origins)

    @cached_property
    def origins(self) -> dict[str, str]:
        """The preset file or sweep of each training, by the training's name.

        Raises:
            ConfigError: if a preset file has the name of a training derived from another one.
        """
        found: dict[str, str] = {}
        models = [
            (model, self.presets[file].SEEDS if file in self.presets else 1, file)
            for file in self.folder_names
            for model in (file, *self.derived_names(file))
        ]
        models += [
            (member, self.swept[member].SEEDS, f"sweep {name}")
            for name, sweep in self.sweeps.items()
            for member in sweep.members
        ]
        for model, seeds, origin in models:
            for name in seed_names(model, seeds):
                if name != origin and name in self.folder_names:
                    raise ConfigError(
                        f"{Path(self.settings.PRESET_DIR, name)}.yaml: {name} is also the name of "
                        f"a preset derived from {origin}; rename the file"
                    )
                found[name] = origin
        return found

    def seeds(self, preset: str) -> list[str]:
        """The trainings of a preset with all its seeds; only itself for a training of one seed.

        An invalid preset has one, whose job reports the error.
        """
        known = split_seed(preset)[1] == 1 and preset not in self.broken
        return seed_names(preset, self.preset(preset).SEEDS) if known else [preset]

    @property
    def seeded(self) -> list[str]:
        """Presets with several seeds."""
        return [name for name, settings in self.presets.items() if settings.SEEDS > 1]

    def sweep(self, name: str) -> Sweep:
        """A sweep.

        Raises:
            ConfigError: if its file or its base is invalid.
        """
        if name in self.broken_sweeps:
            raise ConfigError(self.broken_sweeps[name])
        return self.sweeps[name]

    @property
    def sweep_names(self) -> list[str]:
        """Names of all sweeps, valid or not."""
        return sorted([*self.sweeps, *self.broken_sweeps])

    @property
    def every_preset(self) -> dict[str, RunSettings]:
        """The presets of files and of sweeps, each of which may have other data."""
        return {**self.presets, **self.swept}

    @property
    def ablated(self) -> list[str]:
        """Presets with an ablation, valid or not."""
        return [name for name in self.folder_names if self.derived_names(name)]

    def derived(self, preset: str) -> list[str]:
        """The names of a preset's variants.

        Raises:
            ConfigError: if its problem has no ablation.
        """
        if preset in self.presets:
            require_ablation(preset, self.presets[preset])
        return self.derived_names(preset)

    def derived_names(self, preset: str) -> list[str]:
        """As :meth:`derived`; none without an ablation, all possible ones for an invalid preset."""
        if preset not in self.presets:
            return [preset + suffix for suffix in all_variant_suffixes()]
        ablation = self.presets[preset].ablation
        return ablation.names(preset) if ablation else []

    def preset(self, name: str) -> RunSettings:
        """The settings of a preset, a variant, a sweep's member, or a training of another seed.

        Raises:
            ConfigError: if there is no such preset, or its file or variant is invalid.
        """
        if name in self.every_preset:
            return self.every_preset[name]
        (base, seed), origin = split_seed(name), self.origins.get(name)
        if origin is None and base in self.origins:
            raise ConfigError(f"no preset {name!r}: SEEDS of {base} is {self.preset(base).SEEDS}")
        if origin is None:
            raise ConfigError(f"no preset {name!r}; there are: {', '.join(self.presets)}")
        if origin in self.broken:
            raise ConfigError(self.broken[origin])
        if seed > 1:
            settings = self.preset(base)
            return settings.model_copy(update={"SEED": settings.SEED + seed - 1})
        settings = self.presets[origin]
        variants = require_ablation(origin, settings).variants
        return derive(origin, settings, next(v for v in variants if name == origin + v.suffix))

    @cached_property
    def prepared(self) -> dict[str, str]:
        """One preset for each data folder that the rule ``prepare`` makes."""
        found: dict[str, str] = {}
        for name, settings in self.every_preset.items():
            problem = find_problem(settings.TASK)
            if not problem.OWN_STAGES:
                found.setdefault(problem.data_folder(settings), name)
        return found

    def manifest(self, preset: str) -> Path:
        """Path of the manifest of a preset's prepared data.

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
    document = overlay(document, document_of_values(dict(overrides or {}), "--config"))
    document = canonical(document, _OLDER_KEYS)
    settings = validate(workflow_schema(), document, _ADVICE)
    files = _preset_files(Path(settings.PRESET_DIR))
    _require_known("PRESETS", files, settings, document, files)
    pieces = settings.SET.split() if isinstance(settings.SET, str) else list(settings.SET)
    above = [section(document, "SETTINGS"), parse_overrides(pieces, "SET")]
    beneath = section(document, "DATA", nested=True)

    @cache
    def layers(task: str) -> tuple[Document, list[Document]]:
        """Keys to merge under and over every preset of a problem, with the schema's names."""
        aliases = find_problem(task).SETTINGS.aliases
        lower = canonical(beneath, aliases) if task == DEFAULT_TASK else Document({})
        return lower, [canonical(keys_of_task(layer, task), aliases) for layer in above]

    presets: dict[str, RunSettings] = {}
    broken: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for name, path in files.items():
        try:
            own = read_preset(path)
            task = task_of(reduce(overlay, [own, *above]))
            names.setdefault(task, []).append(name)
            lower, upper = layers(task)
            presets[name] = build_settings(reduce(overlay, [lower, own, *upper]))
        except ConfigError as error:
            broken[name] = str(error)
    errors = [[broken.get(name, "") for name in alike] for alike in names.values()]
    wrong = [each for each in errors if all(error.startswith("SET ") for error in each)]
    if wrong:
        raise ConfigError(_merge_messages(chain(*wrong)))
    if not presets:
        raise ConfigError(_merge_messages(broken.values()))
    sweeps = _read_sweeps(Path(settings.SWEEP_DIR), presets, broken)
    plan = Workflow(settings, presets, broken, *sweeps)
    _require_known("RETRAIN", [*plan.names, *plan.sweeps], settings, document, files)
    return plan


def _read_sweeps(
    folder: Path, presets: Mapping[str, RunSettings], broken: Mapping[str, str]
) -> tuple[dict[str, Sweep], dict[str, RunSettings], dict[str, str]]:
    """The sweeps of a folder, the settings of their members, and errors of invalid sweeps."""
    sweeps: dict[str, Sweep] = {}
    swept: dict[str, RunSettings] = {}
    faults: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            sweep = read_sweep(path)
            if sweep.base in broken:
                raise ConfigError(broken[sweep.base])
            if sweep.base not in presets:
                raise ConfigError(
                    f"{path}: BASE names {sweep.base!r}; presets: {', '.join(presets)}"
                )
            base = presets[sweep.base]
            swept |= {member: sweep.settings(member, base) for member in sweep.members}
            sweeps[path.stem] = sweep
        except ConfigError as error:
            faults[path.stem] = str(error)
    return sweeps, swept, faults


def keys_of_task(document: Document, task: str) -> Document:
    """The overrides of all presets that apply to one problem.

    Keys that only other problems have are removed. Keys that no problem has stay, so that
    validation refuses them.

    Args:
        document: overrides of all presets.
        task: the problem.
    """
    own = spelled_keys(task)
    others = {path for other in PROBLEMS for path in spelled_keys(other)} - own
    return Document(_without_paths(document.tree, others), document.places)


def spelled_keys(task: str) -> set[KeyPath]:
    """All keys of a problem's presets, with their other names."""
    kind = find_problem(task).SETTINGS
    return {*known_keys(kind), *kind.aliases.renamed, *kind.aliases.deprecated}


def _without_paths(tree: Mapping[str, Any], paths: Collection[KeyPath], at: KeyPath = ()) -> Any:  # noqa: ANN401
    """A tree without some paths."""
    return {
        name: _without_paths(value, paths, (*at, name)) if isinstance(value, Mapping) else value
        for name, value in tree.items()
        if (*at, name) not in paths
    }


def _preset_files(folder: Path) -> dict[str, Path]:
    """The preset files by name."""
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not files:
        raise ConfigError(
            f"PRESET_DIR is {str(folder)!r}: found no preset (*.yaml) there; set it to the folder "
            "of the presets"
        )
    return files


def _require_known(
    name: str,
    known: Collection[str],
    settings: WorkflowSettings,
    document: Document,
    files: Iterable[str],
) -> None:
    """Refuse unknown names in PRESETS or RETRAIN."""
    for preset in getattr(settings, name):
        if preset not in known:
            raise ConfigError(
                f"{document.places.get((name,), name)}: {name} names {preset!r}; "
                f"presets in {settings.PRESET_DIR}: {', '.join(files)}"
            )


def _merge_messages(messages: Iterable[str]) -> str:
    """Several messages as one, each line once, the advice last.

    Of the messages of several problems on one unknown key, the one with a suggestion is kept.
    """
    lines: dict[str, str] = {}
    for message in messages:
        for line in reversed(message.splitlines()):
            fault = line.partition(";")[0]
            if fault not in lines or "did you mean" in line:
                lines[fault] = line
    return "\n".join(reversed(lines.values()))


def read_plan(configfiles: Sequence[Path], overrides: Sequence[str]) -> Workflow:
    """The configuration of the project in the working directory.

    Args:
        configfiles: overlays of ``config/config.yaml``.
        overrides: ``KEY=value``, as in ``snakemake --config``.

    Raises:
        UserError: if there is no configuration here, or it is invalid.
    """
    main = Path("config/config.yaml")
    if not main.is_file():
        raise UserError(f"{Path.cwd()}: no {main} here; go to the project's folder first")
    return load_workflow([main, *configfiles], parse_overrides(overrides, "--config").tree)

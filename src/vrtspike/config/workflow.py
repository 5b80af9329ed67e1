"""What to run: data sources, presets and the machine (``config/config.yaml`` and overlays)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import create_model, field_validator

from vrtspike.config.ablation import derive, every_suffix, require_ablation, split_name
from vrtspike.config.checking import known_keys, validate
from vrtspike.config.fields import (
    NonNegative,
    Positive,
    Section,
    operational,
)
from vrtspike.config.loading import read_preset, settings_class, settings_from
from vrtspike.config.merging import canonical, overlay, parse_overrides, section
from vrtspike.config.reading import Document, given_document, read_yaml
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError
from vrtspike.problems import DEFAULT, PROBLEMS, find_problem

MANIFEST = "dataset.json"
"""The manifest of prepared data, in their folder."""
_ADVICE = "The keys of config/config.yaml are explained in config/README.md."


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

    @field_validator("PRESETS", "RETRAIN", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        """``--config PRESETS=demo`` gives a text; names stand between spaces or commas."""
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


@cache
def workflow_schema() -> type[WorkflowSettings]:
    """``config/config.yaml`` with the sections that problems add to it."""
    parts = dict.fromkeys(find_problem(task).SETTINGS.workflow for task in PROBLEMS)
    bases: Any = tuple(part for part in parts if part is not Section)
    return create_model("WorkflowSettings", __base__=(*bases, WorkflowSettings))


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
        return [name for preset in self.folder_names for name in (preset, *self._derived(preset))]

    @property
    def ablated(self) -> list[str]:
        """The presets that an ablation may be asked of, whether they can be used or not."""
        return [name for name in self.folder_names if self._derived(name)]

    def derived(self, preset: str) -> list[str]:
        """The names of what an ablation compares a preset with.

        Raises:
            ConfigError: if its problem has no ablation.
        """
        if preset in self.presets:
            require_ablation(preset, self.presets[preset])
        return self._derived(preset)

    def _derived(self, preset: str) -> list[str]:
        """As :meth:`derived`; none where there is no ablation, all where nobody knows."""
        if preset not in self.presets:
            return [preset + suffix for suffix in every_suffix()]
        ablation = self.presets[preset].ablation
        return ablation.names(preset) if ablation else []

    def preset(self, name: str) -> RunSettings:
        """A preset of the folder, or one that its ablation derives from it.

        Raises:
            ConfigError: if there is no such preset, its file is wrong, or nothing can be derived
                from it.
        """
        if name in self.presets:
            return self.presets[name]
        base, suffix = split_name(name)
        for asked in (name, base):
            if asked in self.broken:
                raise ConfigError(self.broken[asked])
        if not suffix or base not in self.presets:
            raise ConfigError(f"no preset {name!r}; there are: {', '.join(self.presets)}")
        settings = self.presets[base]
        variants = {each.suffix: each for each in require_ablation(base, settings).variants}
        if suffix not in variants:
            raise ConfigError(f"no preset {name!r}; of {base}: {', '.join(self._derived(base))}")
        return derive(base, settings, variants[suffix])

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
    settings = validate(workflow_schema(), document, _ADVICE)
    files = _preset_files(Path(settings.PRESET_DIR))
    _require_presets(settings, document, files)
    pieces = settings.SET.split() if isinstance(settings.SET, str) else list(settings.SET)
    above = [section(document, "SETTINGS"), parse_overrides(pieces, "SET")]
    beneath = section(document, "DATA", nested=True)
    presets: dict[str, RunSettings] = {}
    broken: dict[str, str] = {}
    for name, path in files.items():
        try:
            own = read_preset(path)
            kind = settings_class(own)
            if kind is find_problem(DEFAULT).SETTINGS:
                own = overlay(canonical(beneath, kind.aliases), own)
            for layer in above:
                own = overlay(own, concerning(canonical(layer, kind.aliases), kind))
            presets[name] = settings_from(own)
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
        for name in (base + suffix for suffix in every_suffix()):
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
    derived = [base + suffix for base in files for suffix in every_suffix()]
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

"""What to run: data sources, presets and the machine (``config/config.yaml`` and overlays)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from pathlib import Path
from typing import Any, Literal

from pydantic import create_model, field_validator

from vrtspike.config.ablation import derive, every_suffix, require_ablation
from vrtspike.config.aliases import KeyPath
from vrtspike.config.checking import known_keys, validate
from vrtspike.config.fields import (
    NonNegative,
    Positive,
    Section,
    operational,
)
from vrtspike.config.loading import read_preset, settings_from, task_of
from vrtspike.config.merging import canonical, overlay, parse_overrides, section
from vrtspike.config.reading import Document, given_document, read_yaml
from vrtspike.config.run_schema import VIDEO_KEYS, RunSettings
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
    """``config/config.yaml`` with the sections that problems add to it.

    Raises:
        ConfigError: if two of them, or one and the workflow, have sections of one name.
    """
    parts = dict.fromkeys(find_problem(task).SETTINGS.workflow for task in PROBLEMS)
    bases: Any = tuple(part for part in parts if part is not Section)
    names = Counter(name for part in (*bases, WorkflowSettings) for name in part.model_fields)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ConfigError(f"two problems, or one and the workflow, have keys {', '.join(twice)}")
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
        return [
            name for preset in self.folder_names for name in (preset, *self.derived_names(preset))
        ]

    @property
    def ablated(self) -> list[str]:
        """The presets that an ablation may be asked of, whether they can be used or not."""
        return [name for name in self.folder_names if self.derived_names(name)]

    def derived(self, preset: str) -> list[str]:
        """The names of what an ablation compares a preset with.

        Raises:
            ConfigError: if its problem has no ablation.
        """
        if preset in self.presets:
            require_ablation(preset, self.presets[preset])
        return self.derived_names(preset)

    def derived_names(self, preset: str) -> list[str]:
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
        if name in self.broken:
            raise ConfigError(self.broken[name])
        for base, settings in self.presets.items():
            for variant in settings.ablation.variants if settings.ablation else ():
                if name == base + variant.suffix:
                    return derive(base, settings, variant)
        for base, error in self.broken.items():
            if name in self.derived_names(base):
                raise ConfigError(error)
        raise ConfigError(f"no preset {name!r}; there are: {', '.join(self.presets)}")

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
    _require_known("PRESETS", files, settings, document, files)
    pieces = settings.SET.split() if isinstance(settings.SET, str) else list(settings.SET)
    above = [section(document, "SETTINGS"), parse_overrides(pieces, "SET")]
    beneath = section(document, "DATA", nested=True)

    @cache
    def layers(task: str) -> tuple[Document, list[Document]]:
        """What lies beneath and above every preset of a problem, in its spelling."""
        aliases = find_problem(task).SETTINGS.aliases
        lower = canonical(beneath, aliases) if task == DEFAULT else Document({})
        return lower, [canonical(concerning(layer, task), aliases) for layer in above]

    presets: dict[str, RunSettings] = {}
    broken: dict[str, str] = {}
    for name, path in files.items():
        try:
            own = read_preset(path)
            lower, upper = layers(task_of(reduce(overlay, [own, *above])))
            presets[name] = settings_from(reduce(overlay, [lower, own, *upper]))
        except ConfigError as error:
            broken[name] = str(error)
    if not presets:
        # What all of them have in common is most often wrong: SETTINGS, SET or DATA.
        raise ConfigError(_each_line_once(broken.values()))
    plan = Workflow(settings, presets, broken)
    _require_names(plan, document, files)
    return plan


def concerning(document: Document, task: str) -> Document:
    """What of keys that are laid over every preset concerns those of one problem.

    A key that another problem has and this one has not is left out; one that none has stays, so
    that it is refused.

    Args:
        document: the keys, as somebody wrote them.
        task: the problem.
    """
    own = spelled_keys(task)
    others = {path for other in PROBLEMS for path in spelled_keys(other)} - own
    return Document(_without(document.tree, others), document.places)


def spelled_keys(task: str) -> set[KeyPath]:
    """Every key of the presets of a problem, in older spellings, too."""
    kind = find_problem(task).SETTINGS
    foreign = set() if task == DEFAULT else {("TRAIN", name) for name in VIDEO_KEYS}
    known = {path for path in known_keys(kind) if path[:2] not in foreign}
    return known | {*kind.aliases.renamed, *kind.aliases.retired}


def _without(tree: Mapping[str, Any], paths: Collection[KeyPath], at: KeyPath = ()) -> Any:  # noqa: ANN401
    """A tree without what stands at some paths."""
    return {
        name: _without(value, paths, (*at, name)) if isinstance(value, Mapping) else value
        for name, value in tree.items()
        if (*at, name) not in paths
    }


def _preset_files(folder: Path) -> dict[str, Path]:
    """The files of the presets by their names."""
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if not files:
        raise ConfigError(f"PRESET_DIR is {str(folder)!r}: no preset (*.yaml) stands there")
    return files


def _require_names(plan: Workflow, document: Document, files: Mapping[str, Path]) -> None:
    """Refuse files that are called as an ablation calls its presets, and RETRAIN of none."""
    for base in files:
        for name in plan.derived_names(base):
            if name in files:
                raise ConfigError(
                    f"{files[name]}: {name} is what the ablation of preset {base} is called "
                    f"({files[base]}); give the file another name"
                )
    _require_known("RETRAIN", plan.names, plan.settings, document, files)


def _require_known(
    name: str,
    known: Collection[str],
    settings: WorkflowSettings,
    document: Document,
    files: Iterable[str],
) -> None:
    """Refuse presets that a key of the configuration names and that nothing is called."""
    for preset in getattr(settings, name):
        if preset not in known:
            raise ConfigError(
                f"{document.places.get((name,), name)}: {name} names {preset!r}; "
                f"presets in {settings.PRESET_DIR}: {', '.join(files)}"
            )


def _each_line_once(messages: Iterable[str]) -> str:
    """Messages as one; what stands in several of them, their advice too, is said once, last."""
    lines = [line for message in messages for line in reversed(message.splitlines())]
    return "\n".join(reversed(dict.fromkeys(lines)))

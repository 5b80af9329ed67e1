"""Questions about trainings: which weights enter, and whether their code is still today's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from vrtspike.config.loading import missing_files
from vrtspike.config.packages import check_packages
from vrtspike.config.schema import Settings
from vrtspike.config.workflow import Workflow
from vrtspike.data.manifests import DATASET, read_manifest
from vrtspike.errors import ConfigError, UserError
from vrtspike.flatten import flat_settings
from vrtspike.pretrained import PUBLISHED
from vrtspike.runs.code import changes_since, describe_code
from vrtspike.runs.identity import RunIdentity, result_settings
from vrtspike.runs.names import WEIGHTS
from vrtspike.runs.weight_files import training_weights, weight_digests

FORGOTTEN = """
Snakemake does not know how the results in {results} were made: its folder .snakemake was removed,
or they come from another place. Trainings and data are compared by records of their own. Whether
code, or settings of evaluations, have changed since cannot be told; if so, make results again:
snakemake --forcerun evaluate analyze_performance"""
"""A notice; Snakemake itself takes such results for current."""

_NAMING = len(Path("dataset/bins/dataset.json").parts)
"""How much of a data set's path says which it is; results may stand anywhere."""


class Trainings:
    """The presets of a configuration, as what is or will be trained.

    Args:
        plan: the configuration.
        program: ``scripts/train.py``.
        notice: takes what a user should read at the end.
    """

    def __init__(self, plan: Workflow, program: Path, notice: Callable[[str], None]) -> None:
        self._plan = plan
        self._program = program
        self._notice = notice
        # A plan asks for the same large file again and again.
        self._digests: dict[Path, str] = {}

    def result(self, preset: str) -> Path:
        """Folder of a preset's published result."""
        return Path(self._plan.settings.RESULTS) / "train" / preset

    def is_trained(self, preset: str) -> bool:
        """Whether there is a result, stale or not."""
        return (self.result(preset) / WEIGHTS).is_file()

    def trained_before(self, preset: str) -> list[str]:
        """Weights of other presets of this workflow that a preset learns from."""
        return [str(path) for path in self._files(preset).values() if self._is_made(path)]

    def fetched_before(self, preset: str) -> list[str]:
        """Published weights that a preset's training reads."""
        return [str(path) for path in self._files(preset).values() if path.name in PUBLISHED]

    def weight_lines(self, preset: str) -> list[str]:
        """A line per file of weights that a user gives: its key and SHA-256.

        Of a preset that stays as it is trained and whose files have gone since, those it was
        trained with: they are needed for nothing any more.

        Raises:
            ConfigError: if a file is not there and the preset is to be trained with it.
        """
        given = self._given(preset)
        gone = {key: str(path) for key, path in given.items() if not path.is_file()}
        digests = {key: self._digest(key, path) for key, path in given.items() if key not in gone}
        if gone:
            trained = self._lasting(preset)
            if trained is None:
                raise ConfigError(_missing(preset, gone))
            digests |= {key: trained.weights[key] for key in gone}
        return [f"{key}: SHA-256 {digests[key]}" for key in sorted(digests)]

    def require_files(self, preset: str, *, anew: bool = False) -> None:
        """Before anything is computed: what a training reads and no job makes is there.

        Where the preset stays as it is trained, what has gone since is only told.

        Args:
            preset: its name.
            anew: whether it is trained again in any case.

        Raises:
            ConfigError: naming keys and paths.
        """
        begins = anew or self._lasting(preset) is None
        given = self._given(preset)
        gone = missing_files(self._settings(preset))
        gone |= {key: str(path) for key, path in given.items() if not path.is_file()}
        if anew or not self.is_trained(preset):
            check_packages(self._settings(preset))
        if not gone:
            return
        if begins:
            raise ConfigError(_missing(preset, gone))
        files = ", ".join(f"{key} ({path})" for key, path in gone.items())
        self._notice(
            f"preset {preset} was trained with files that are no longer there: {files}. Its "
            "result stays; to train it again, give them back"
        )

    def has_other_data(self, preset: str) -> bool:
        """Whether the result of a preset comes from another data set than the preset names now."""
        try:
            trained = Path(RunIdentity.read(self.result(preset)).dataset)
        except UserError:
            return False
        return trained.parts[-_NAMING:] != self._dataset(preset).parts[-_NAMING:]

    def change(self, preset: str) -> str:
        """How what would be trained today differs from the run that trained a preset.

        By the run's own record, for where Snakemake has none.

        Returns:
            settings, data and weights in a line; empty where nothing differs, or cannot be told.
        """
        try:
            run = RunIdentity.read(self.result(preset))
        except UserError:
            return ""
        then, now = (
            flat_settings(result_settings(settings))
            for settings in (run.settings, self._settings(preset))
        )
        changes = [
            f"{key} {then.get(key)} -> {now.get(key)}"
            for key in sorted(then.keys() | now.keys())
            if then.get(key) != now.get(key)
        ]
        if self._data_digest(preset) not in (None, run.dataset_digest):
            changes.append("the data are others")
        changes += [
            f"{key}: other weights"
            for key, path in self._given(preset).items()
            if path.is_file() and self._digest(key, path) != run.weights.get(key)
        ]
        return ", ".join(changes)

    def code_notice(self, preset: str) -> str | None:
        """What of the code behind a preset's weights is no longer today's, in one line."""
        if not self.is_trained(preset):
            return None
        changed = changes_since(self.result(preset), self._program)
        if not changed:
            return None
        return (
            f"{preset} was trained by other code: {describe_code(changed)}. Its weights stay; to "
            f"train it again: snakemake --forcerun train_{preset}"
        )

    def _settings(self, preset: str) -> Settings:
        return self._plan.preset(preset)

    def _files(self, preset: str) -> dict[str, Path]:
        return training_weights(self._settings(preset))

    def _is_made(self, path: Path) -> bool:
        """Whether a job of this workflow trains these weights."""
        return any(path == self.result(name) / WEIGHTS for name in self._plan.names)

    def _digest(self, key: str, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = weight_digests({key: path})[key]
        return self._digests[path]

    def _given(self, preset: str) -> dict[str, Path]:
        """The files of weights that neither a job trains nor one fetches."""
        return {
            key: path
            for key, path in self._files(preset).items()
            if not self._is_made(path) and path.name not in PUBLISHED
        }

    def _lasting(self, preset: str) -> RunIdentity | None:
        """The run that trained a preset, if its settings, weights and data are still today's.

        Files of weights that have gone count as those it was trained with, and so do data that
        are not prepared.
        """
        try:
            run = RunIdentity.read(self.result(preset))
        except UserError:
            return None
        given = self._given(preset)
        same = (
            self.is_trained(preset)
            and result_settings(run.settings) == result_settings(self._settings(preset))
            and self._data_digest(preset) in (None, run.dataset_digest)
            and given.keys() <= run.weights.keys()
            and all(
                self._digest(key, path) == run.weights[key]
                for key, path in given.items()
                if path.is_file()
            )
        )
        return run if same else None

    def _data_digest(self, preset: str) -> str | None:
        try:
            return str(read_manifest(self._dataset(preset), DATASET)["digest"])
        except UserError:
            return None

    def _dataset(self, preset: str) -> Path:
        """The manifest of the data set that a preset names."""
        return dataset_manifest(self._plan, preset)


def dataset_manifest(plan: Workflow, preset: str) -> Path:
    """Where the manifest of the data set stands, or will stand, that a preset is trained on.

    Raises:
        ConfigError: if there is no such preset, or its file is wrong.
    """
    name, bins = plan.dataset(preset).name, plan.preset(preset).DATA.K
    return Path(plan.settings.RESULTS) / f"data/{name}/k{bins}/dataset.json"


def _missing(preset: str, files: Mapping[str, str]) -> str:
    """What to say of files, by the key that names them, that a training needs."""
    lines = [f"preset {preset}: {key}: no such file: {path}" for key, path in files.items()]
    return "\n".join([*lines, "Give an existing file, or remove the key."])


def retrained(plan: Workflow, forced: Iterable[str]) -> frozenset[str]:
    """The presets to train again where their code has changed.

    Args:
        plan: RETRAIN names presets.
        forced: names of rules that Snakemake is told to run: ``train`` is all presets,
            ``train_<preset>`` one.
    """
    rules = set(forced)
    every = plan.names if "train" in rules else ()
    named = (name for name in plan.names if f"train_{name}" in rules)
    return frozenset([*every, *named, *plan.settings.RETRAIN])

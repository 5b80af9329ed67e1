"""Questions about trainings: which weights enter, and whether their code is still today's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vrtspike.config.loading import check_files, check_packages
from vrtspike.config.schema import Settings
from vrtspike.config.workflow import Workflow
from vrtspike.errors import ConfigError, UserError
from vrtspike.pretrained import PUBLISHED
from vrtspike.runs.code import changes_since, describe_code
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import WEIGHTS
from vrtspike.runs.weight_files import training_weights, weight_digests


class Trainings:
    """The presets of a configuration, as what is or will be trained.

    Args:
        plan: the configuration.
        program: ``scripts/train.py``.
    """

    def __init__(self, plan: Workflow, program: Path) -> None:
        self._plan = plan
        self._program = program
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

        Of a preset that is trained and whose files have gone since, those it was trained with: they
        are needed for nothing any more.

        Raises:
            ConfigError: if a file is not there and the preset is not trained.
        """
        given = {
            key: path
            for key, path in self._files(preset).items()
            if not self._is_made(path) and path.name not in PUBLISHED
        }
        known = self._known_weights(preset)
        gone = [key for key, path in given.items() if not path.is_file()]
        for key in gone:
            if key not in known:
                raise ConfigError(f"preset {preset}: {key}: no such file: {given[key]}")
        digests = {key: known[key] for key in gone}
        digests |= {key: self._digest(key, path) for key, path in given.items() if key not in gone}
        return [f"{key}: SHA-256 {digests[key]}" for key in sorted(digests)]

    def require_files(self, preset: str) -> None:
        """Before anything is computed: what a training reads and no job makes is there.

        Raises:
            ConfigError: naming keys and paths.
        """
        if not self.is_trained(preset):
            check_files(self._settings(preset))
            check_packages(self._settings(preset))
        self.weight_lines(preset)

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

    def _known_weights(self, preset: str) -> dict[str, str]:
        try:
            return dict(RunIdentity.read(self.result(preset)).weights)
        except UserError:
            return {}


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

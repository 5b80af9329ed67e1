"""Questions about raw data: what is there, whether it changed, what must be made before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.clips.requirements import require_spikes
from vrtspike.deblurring.data.manifests import SURVEY, surveyed
from vrtspike.deblurring.data.raw.folders import folder_version
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.table import find_sequence
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.deblurring.data.raw.versions import RawState, raw_state
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.errors import DataError, list_faults, named_faults
from vrtspike.files import json_digest
from vrtspike.manifests import read_manifest

NO_DATA = """
Before this can run: {error}
Set DATA.ROOT, in config/config.yaml unless a preset or --config gives it.
Without data: make demo"""
FAULTS = {
    "stop": "A run looks into all other files, lists every fault, and stops before computing.",
    "exclude": "A run goes on without these sequences (DATA.ON_ERROR: exclude).",
}
MISSING = "missing"
"""The version of what is not there: the job meets the same error and reports it."""


class RawData:
    """The data sets of a configuration; each is looked at once.

    Args:
        videos: those of the configuration.
        is_dry_run: asked when a data set is looked at; in a run the gate tells all faults.
        notice: takes what a user should read at the end.
        measures: whether sizes and dates of files are asked for, or names only; a job of a cluster
            that plans for itself alone needs no more.
    """

    def __init__(
        self,
        videos: Videos,
        is_dry_run: Callable[[], bool],
        notice: Callable[[str], None],
        measures: bool = True,
    ) -> None:
        self._videos = videos
        self._is_dry_run = is_dry_run
        self._notice = notice
        self._measures = measures
        self._surveys: dict[str, dict[str, Any] | None] = {}
        self._states: dict[str, dict[str, RawState] | None] = {}

    def survey(self, dataset: Dataset) -> dict[str, Any] | None:
        """What stands below a data root; None, and a notice, without data."""
        if dataset.name not in self._surveys:
            self._surveys[dataset.name] = self._look(dataset)
        return self._surveys[dataset.name]

    def states(self, dataset: Dataset) -> dict[str, RawState] | None:
        """The raw files of each sequence of a data set, by ``<split>/<name>``.

        Of generated data, those that the survey found; None where nothing is known yet.
        """
        if dataset.kind == "raw":
            self.survey(dataset)
        elif dataset.name not in self._states:
            self._states[dataset.name] = self._generated_states(dataset)
        return self._states.get(dataset.name)

    def _generated_states(self, dataset: Dataset) -> dict[str, RawState] | None:
        try:
            names = surveyed(read_manifest(self._survey_file(dataset), SURVEY))
        except DataError:
            return None  # there is none yet, or none that this version reads
        return {name: self._state(dataset, name) for name in names}

    def _state(self, dataset: Dataset, name: str) -> RawState:
        split, _, sequence = name.partition("/")
        try:
            files = find_sequence(
                Path(dataset.root), split, sequence, dataset.blur_dir, dataset.layout
            )
        except DataError:
            return RawState(MISSING, 0)
        return raw_state(dataset.root, files, dataset.blur_dir)

    def _survey_file(self, dataset: Dataset) -> Path:
        return self._videos.results / "data" / dataset.name / "survey.json"

    def _look(self, dataset: Dataset) -> dict[str, Any] | None:
        splits = [dataset.train_split, dataset.val_split]
        states: dict[str, RawState] = {}

        def look(files: SequenceFiles) -> None:
            state = raw_state(dataset.root, files, dataset.blur_dir)
            states[f"{files.split}/{files.name}"] = state

        measure = look if self._measures else None
        try:
            known = survey(dataset.root, splits, dataset.blur_dir, dataset.layout, measure)
        except DataError as error:
            self._notice(NO_DATA.format(error=error))
            return None
        if known["excluded"] and self._is_dry_run():
            title = f"\n{dataset.root} has faults, as far as names show"
            faults = named_faults(known["excluded"])
            self._notice(list_faults(title, faults, FAULTS[dataset.on_error]))
        if self._measures:
            self._states[dataset.name] = {name: states[name] for name in surveyed(known)}
        return known

    def found(self, dataset: Dataset) -> str | None:
        """Changes when sequences are added to or removed from a data root that users fill.

        Generated data change with the jobs before; only what was set aside there is looked at
        again.
        """
        if dataset.kind == "raw":
            known = self.survey(dataset)
            return json_digest(known) if known else None
        try:
            before = read_manifest(self._survey_file(dataset), SURVEY)["excluded"]
        except DataError:
            return None  # there is none yet, or none that this version reads
        return json_digest([before, self.survey(dataset)]) if before else None

    def generated_before(self, dataset: Dataset) -> list[str]:
        """What must be generated before a data set can be surveyed."""
        if dataset.kind == "demo":
            return [f"{dataset.root}/sources.txt"]
        if dataset.kind == "simulated":
            return [
                f"{dataset.root}/sources/{sequence.SPLIT}/{sequence.SEQUENCE}.txt"
                for sequence in self._videos.settings.SIMULATE.SEQUENCES
            ]
        return []

    def require_spikes(self, preset: str, settings: Settings) -> None:
        """Refuse a preset with spikes for a folder without, as far as names show.

        Raises:
            ConfigError: naming both.
        """
        dataset = self._videos.dataset(preset)
        known = self.survey(dataset) if dataset.kind == "raw" else None
        if known:
            require_spikes(f"preset {preset}, {dataset.root}", known["spikes"], settings)


def frames_version(folder: str) -> str:
    """Changes when the frames of a simulated sequence change, not when they are touched."""
    try:
        return folder_version(Path(folder))
    except DataError:
        return MISSING

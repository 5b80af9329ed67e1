"""Raw data sets of a configuration: surveys, sizes and versions of their files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import Survey, surveyed
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.survey import survey_files
from vrtspike.data.raw.versions import source_version
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.io.files import json_digest
from vrtspike.io.manifests import size_and_date
from vrtspike.system.errors import DataError, list_faults, named_faults
from vrtspike.system.home import DEMO_COMMAND
from vrtspike.workflow.messages import EndMessages

NO_DATA = f"""Before this can run: {{error}}
Set DATA.ROOT, in config/config.yaml unless a preset or --config gives it.
Without data: {DEMO_COMMAND}"""
FAULTS = {
    "stop": "A run looks into all other files, lists every fault, and stops before computing.",
    "exclude": "A run goes on without these sequences (DATA.ON_ERROR: exclude).",
}


class RawState(NamedTuple):
    """State of the raw files of a sequence.

    Attributes:
        version: text that changes with the contents, see :func:`source_version`.
        nbytes: total size in bytes.
    """

    version: str
    nbytes: int


class RawData:
    """The raw data sets of a configuration; each is inspected once.

    Args:
        workflow: configuration with the presets.
        is_dry_run: function that returns true in a dry run, called when a data set is inspected.
            Faults are reported in a dry run only; in a run the jobs report them.
        notices: messages for the end of the run; missing data make a plan fail.
        measures: if false, only names are read, not sizes and dates. That is enough for a cluster
            job, which plans only itself.
    """

    def __init__(
        self,
        workflow: DeblurringWorkflow,
        is_dry_run: Callable[[], bool],
        notices: EndMessages,
        measures: bool = True,
    ) -> None:
        self._workflow = workflow
        self._is_dry_run = is_dry_run
        self._notices = notices
        self._measures = measures
        self._inspect = cache(self._inspect_dataset)

    def survey(self, data_source: DataSource) -> Survey | None:
        """Return the survey of a data set provided by the user.

        None for generated data; None, with a notice, for missing data.
        """
        sequences, _ = self._inspect(data_source)
        return sequences

    def states(self, data_source: DataSource) -> dict[str, RawState]:
        """Return the state of each sequence provided by the user, by ``<split>/<name>``.

        Empty for generated data, and if ``measures`` is false.
        """
        _, states = self._inspect(data_source)
        return states

    def _inspect_dataset(
        self, data_source: DataSource
    ) -> tuple[Survey | None, dict[str, RawState]]:
        """Survey a data set, measure its files, and add notices.

        Returns:
            the survey, None for generated or missing data; and states by ``<split>/<name>``.
        """
        if data_source.kind != "raw":
            return None, {}
        try:
            sequences, files = survey_files(data_source, data_source.splits)
        except DataError as error:
            self._notices.add(NO_DATA.format(error=error))
            self._notices.exit_status = int(self._is_dry_run())
            return None, {}
        if self._is_dry_run():
            self._note_survey(data_source, sequences)
        if not self._measures:
            return sequences, {}
        folder = self._workflow.data_folder(data_source.name) / "ingest"
        states = {}
        for name in surveyed(sequences):
            states[name] = _measure(data_source.root, files[name], folder / f"{name}.json")
        return sequences, states

    def _note_survey(self, data_source: DataSource, sequences: Survey) -> None:
        """Add notices about sequences with faults and ignored folders."""
        if sequences["excluded"]:
            title = f"\n{data_source.root} has faults, as far as names show"
            faults = named_faults(sequences["excluded"])
            self._notices.add(list_faults(title, faults, FAULTS[data_source.on_error]))
        passed_over = sequences.get("passed_over")
        if passed_over:
            names = ", ".join(passed_over)
            self._notices.add(
                f"{data_source.root}: {len(passed_over)} folders passed over: {names}"
            )


def _measure(root: str, files: SequenceFiles, manifest: Path) -> RawState:
    """Return version and size of a sequence's raw files.

    Args:
        root: the data set's folder.
        files: files of the sequence.
        manifest: path of its ingest manifest, which need not exist.
    """
    version = source_version(root, files, manifest)
    nbytes = 0
    for path in files.paths:
        size, _ = size_and_date(Path(root), path)
        nbytes += max(0, size)  # a missing file has size -1
    return RawState(version, nbytes)


def names_version(sequences: Survey | None) -> str | None:
    """Return a line that changes when sequences are added or removed; None without a survey.

    Generated data change with the jobs that make them.
    """
    if sequences is None:
        return None
    # Ignored folders change no result.
    used = {key: value for key, value in sequences.items() if key != "passed_over"}
    return f"names below the data's folder: {json_digest(used)[:12]}"

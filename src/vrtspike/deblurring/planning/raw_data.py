"""Raw data sets of a configuration: surveys, sizes and versions of their files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import Survey, surveyed_sequences
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.survey import survey_files
from vrtspike.data.raw.versions import source_version
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.io.manifests import size_and_date
from vrtspike.system.errors import DataError, list_faults, named_faults
from vrtspike.system.home import DEMO_COMMAND
from vrtspike.workflow.messages import ExitMessages
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

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

    Sizes and dates are read by the main process only; a cluster job needs names alone, because it
    plans only itself. Faults are reported in a dry run only; in a run the jobs report them.

    Args:
        config: configuration of deblurring.
        snakemake: interface to Snakemake, which tells a dry run and a cluster job.
        messages: messages for the end of the run; missing data make a dry run fail.
    """

    def __init__(
        self, config: DeblurringConfig, snakemake: SnakemakeInternals, messages: ExitMessages
    ) -> None:
        self._config = config
        self._snakemake = snakemake
        self._messages = messages
        self._inspect = cache(self._inspect_dataset)

    def survey(self, data_source: DataSource) -> Survey | None:
        """Return the survey of a data set provided by the user.

        None of generated data; None, with a message, of missing data.
        """
        survey, _ = self._inspect(data_source)
        return survey

    def states(self, data_source: DataSource) -> dict[str, RawState]:
        """Return the state of each sequence provided by the user, by ``<split>/<name>``.

        Empty for generated data, and in a cluster job.
        """
        _, states = self._inspect(data_source)
        return states

    def _inspect_dataset(
        self, data_source: DataSource
    ) -> tuple[Survey | None, dict[str, RawState]]:
        """Survey a data set, measure its files, and add messages.

        Returns:
            the survey, None for generated or missing data; and states by ``<split>/<name>``.
        """
        if data_source.kind != "raw":
            return None, {}
        try:
            survey, files = survey_files(data_source, data_source.splits)
        except DataError as error:
            self._messages.add(_no_data_message(error))
            self._messages.exit_status = int(self._snakemake.is_dry_run)
            return None, {}
        if self._snakemake.is_dry_run:
            self._messages.add(*_survey_messages(data_source, survey))
        if not self._snakemake.is_main:
            return survey, {}
        folder = self._config.data_folder(data_source.name) / "ingest"
        states = {}
        for name in surveyed_sequences(survey):
            states[name] = _measure(data_source.root, files[name], folder / f"{name}.json")
        return survey, states


def _no_data_message(error: DataError) -> str:
    """Return the message on data that cannot be surveyed."""
    return (
        f"Before this can run: {error}\n"
        "Set DATA.ROOT, in config/config.yaml unless a preset or --config gives it.\n"
        f"Without data: {DEMO_COMMAND}"
    )


def _survey_messages(data_source: DataSource, survey: Survey) -> list[str]:
    """Return messages on sequences with faults and on folders that are passed over."""
    messages = []
    if survey["excluded"]:
        title = f"\n{data_source.root} has faults, as far as names show"
        faults = named_faults(survey["excluded"])
        messages.append(list_faults(title, faults, FAULTS[data_source.on_error]))
    passed_over = survey.get("passed_over")
    if passed_over:
        names = ", ".join(passed_over)
        messages.append(f"{data_source.root}: {len(passed_over)} folders passed over: {names}")
    return messages


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

"""Raw data sets of a configuration: sequences, versions and shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vrtspike.data.clips.requirements import require_sequences_to_hold_out, require_spikes
from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import SURVEY, Survey, surveyed
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.nearby import spike_roots
from vrtspike.data.raw.survey import survey
from vrtspike.data.raw.versions import source_version
from vrtspike.data.shards import shard_count, shard_members, shard_names, shard_of
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.io.files import json_digest
from vrtspike.io.manifests import read_manifest, size_and_date
from vrtspike.settings import Settings
from vrtspike.system.errors import DataError, list_faults, named_faults
from vrtspike.system.home import DEMO_COMMAND
from vrtspike.workflow.job_resources import ALL_CORES
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
        measures: if false, only names are read, not sizes and dates. A cluster job needs no more,
            because it plans only itself.
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
        # Computed once, because the results that it reads change while jobs run.
        self.shards = cache(self._find_shards)

    def survey(self, data_source: DataSource) -> Survey | None:
        """Return the survey of a folder that users fill.

        None of generated data; None, with a notice, of missing data.
        """
        sequences, _ = self._inspect(data_source)
        return sequences

    def states(self, data_source: DataSource) -> dict[str, RawState]:
        """Return the state of each sequence in a folder that users fill, by ``<split>/<name>``.

        Empty for generated data, and if ``measures`` is false.
        """
        _, states = self._inspect(data_source)
        return states

    def folder(self, data_source: DataSource) -> Path:
        """Return the folder of a data set's results."""
        return self._workflow.results / "data" / data_source.name

    def names_version(self, data_source: DataSource) -> str | None:
        """Return a line that changes when sequences are added or removed; None without a survey.

        Generated data change with the jobs that make them.
        """
        sequences = self.survey(data_source)
        if sequences is None:
            return None
        # Folders that are passed over change no result.
        used = {key: value for key, value in sequences.items() if key != "passed_over"}
        return f"names below the data's folder: {json_digest(used)[:12]}"

    def require_spikes(self, preset: str, settings: Settings) -> None:
        """Refuse a preset with spikes for a folder without them, judged by names.

        Raises:
            ConfigError: naming both.
        """
        data_source = self._workflow.data_source(preset)
        sequences = self.survey(data_source)
        if not sequences:
            return
        other_roots: list[Path] = []
        if not sequences["spikes"]:
            first = sequences["sequences"][0]
            root = Path(data_source.root)
            other_roots = spike_roots(root, first["split"], first["name"], data_source.layout)
        title = f"preset {preset}, {data_source.root}"
        require_spikes(title, sequences["spikes"], settings, other_roots)

    def wildcards_of(self, preset: str) -> dict[str, str | int]:
        """Return the wildcards of the job that writes the manifest of a preset's data.

        The data are checked, as far as names and configuration show.

        Raises:
            UserError: if the preset is invalid or does not fit its data.
        """
        settings = self._workflow.preset(preset)
        self.require_spikes(preset, settings)
        self.require_sequences_to_hold_out(preset, settings)
        self.note_own_data(preset)
        return {"dataset": settings.dataset_name, "bins": settings.DATA.NUM_VOXEL_BINS}

    def checked_files(self, presets: Iterable[str]) -> list[str]:
        """Return the tables of alignments and the acceptances of the data of presets, each once.

        Raises:
            UserError: if a preset is invalid or needs spikes that its data do not have.
        """
        files: dict[str, None] = {}
        for preset in presets:
            settings = self._workflow.preset(preset)
            self.require_spikes(preset, settings)
            folder = self.folder(self._workflow.data_source(preset))
            files[f"{folder}/alignment.csv"] = None
            files[f"{folder}/k{settings.DATA.NUM_VOXEL_BINS}/accepted.json"] = None
        return list(files)

    def note_own_data(self, preset: str) -> None:
        """Add a notice if a preset trains on generated data although the user set DATA.ROOT."""
        root = self._workflow.settings.DATA.get("ROOT")
        data_source = self._workflow.data_source(preset)
        if (
            data_source.kind != "demo"
            or root in (None, data_source.root)
            or not Path(root).is_dir()
        ):
            return
        self._notices.add(
            f"preset {preset} takes generated data ({data_source.root}, its own DATA.ROOT), not "
            f"those of config/config.yaml ({root}); on these train light_small or light: "
            "snakemake --cores all train_light_small"
        )

    def require_sequences_to_hold_out(self, preset: str, settings: Settings) -> None:
        """Refuse a preset that holds out sequences for data with a single training sequence.

        Raises:
            ConfigError: naming both.
        """
        if settings.untrained_weights is not None:
            return
        data_source = self._workflow.data_source(preset)
        split = f"{settings.DATA.TRAIN_SPLIT}/"
        training = [
            name for name in self._expected_sequences(data_source) if name.startswith(split)
        ]
        title = f"preset {preset}, {data_source.root}"
        require_sequences_to_hold_out(title, len(training), settings.DATA)

    def shard_files(self, data_source: DataSource, folder: str) -> list[str]:
        """Return the file of every shard of a data set.

        Args:
            data_source: the data set.
            folder: folder below its results, ``ingest`` or ``k<bins>``.
        """
        shards = self.folder(data_source) / folder / "shards"
        return [f"{shards}/{shard}.json" for shard in self.shards(data_source)]

    def shard_threads(self, data_source: DataSource, shard: str) -> int:
        """Return the processes of a job on a shard: one for each sequence.

        Snakemake limits them to ``--cores``, so that it is all cores before the survey.
        """
        return len(shard_members(shard, self._sequences(data_source))) or ALL_CORES

    def versions(self, data_source: DataSource, shard: str) -> list[str]:
        """Return a line for each sequence of a shard that changes with its raw files.

        Empty for generated data, whose files change with the job that makes them.
        """
        states = self.states(data_source)
        return [
            f"raw files of {name}: {states[name].version[:12]}"
            for name in shard_members(shard, states)
        ]

    def _inspect_dataset(
        self, data_source: DataSource
    ) -> tuple[Survey | None, dict[str, RawState]]:
        """Survey a data set, measure its files, and add notices.

        Returns:
            the survey, None of generated or missing data; and states by ``<split>/<name>``.
        """
        if data_source.kind != "raw":
            return None, {}
        states: dict[str, RawState] = {}

        def measure(files: SequenceFiles) -> None:
            name = f"{files.split}/{files.name}"
            states[name] = self._measure(data_source, files)

        try:
            sequences = survey(
                data_source.root,
                [data_source.train_split, data_source.test_split],
                data_source.blur_dir,
                data_source.layout,
                on_sequence=measure if self._measures else None,
                spike_root=data_source.spike_root,
            )
        except DataError as error:
            self._notices.add(NO_DATA.format(error=error))
            self._notices.exit_status = int(self._is_dry_run())
            return None, {}
        if self._is_dry_run():
            self._note_survey(data_source, sequences)
        accepted = {name: states[name] for name in surveyed(sequences) if name in states}
        return sequences, accepted

    def _measure(self, data_source: DataSource, files: SequenceFiles) -> RawState:
        """Return version and size of a sequence's raw files."""
        manifest = self.folder(data_source) / "ingest" / files.split / f"{files.name}.json"
        version = source_version(data_source.root, files, manifest)
        nbytes = 0
        for path in files.paths:
            size, _ = size_and_date(Path(data_source.root), path)
            nbytes += max(0, size)  # a missing file has size -1
        return RawState(version, nbytes)

    def _note_survey(self, data_source: DataSource, sequences: Survey) -> None:
        """Add notices about sequences with faults and folders that are passed over."""
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

    def _expected_sequences(self, data_source: DataSource) -> list[str]:
        """Return the expected sequences as ``<split>/<name>``, from names and configuration.

        Sequences with faults count unless they are to be excluded: the gate lists the faults.
        """
        if data_source.kind == "simulated":
            sources = self._workflow.settings.SIMULATE.SEQUENCES
            return [f"{source.SPLIT}/{source.SEQUENCE}" for source in sources]
        sequences = self.survey(data_source)
        if sequences is None:
            return []
        if data_source.on_error == "stop":
            return [*surveyed(sequences), *sequences["excluded"]]
        return surveyed(sequences)

    def _find_shards(self, data_source: DataSource) -> list[str]:
        """Return the shards of a data set; those without sequences are left out once known."""
        limits = self._workflow.settings.SHARDS
        states = self.states(data_source)
        nbytes = sum(state.nbytes for state in states.values())
        sequence_count = len(states) or len(data_source.sources)
        count = shard_count(sequence_count, nbytes, limits.SEQUENCES, limits.GB * 1e9)
        used = {shard_of(name, count) for name in self._sequences(data_source)}
        return sorted(used) or shard_names(count)

    def _sequences(self, data_source: DataSource) -> list[str]:
        """Return the sequences of a data set; empty before its survey is written."""
        states = self.states(data_source)
        if states:
            return list(states)
        try:
            return surveyed(read_manifest(self.folder(data_source) / "survey.json", SURVEY))
        except DataError:
            return []

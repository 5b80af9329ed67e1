"""The plan of the data: the data sets that targets need, their checks, shards and options."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.clips import requirements
from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import SURVEY, ShardManifest, is_damaged, surveyed_sequences
from vrtspike.data.raw.nearby import spike_roots
from vrtspike.data.shards import shard_count, shard_members, shard_names, shard_of
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import json_digest
from vrtspike.io.manifests import ManifestKind, read_manifest
from vrtspike.system.errors import DataError
from vrtspike.workflow.job_resources import ALL_CORES
from vrtspike.workflow.messages import ExitMessages
from vrtspike.workflow.snakemake_internals import SnakemakeInternals


class DataPlan:
    """The data of a plan, as rules ask for them.

    Rules on presets call :meth:`manifest_wildcards` or :meth:`checked_files`, which also check that
    a preset fits its data. Jobs on data know only the name of a data set, their wildcard
    ``dataset``, which all other methods take. Two presets may call different data so, as long as no
    target needs both; therefore the presets that targets need are gathered while Snakemake plans.

    Args:
        config: configuration of deblurring.
        snakemake: interface to Snakemake, which tells a dry run and a cluster job.
        messages: messages for the end of the run.
    """

    def __init__(
        self, config: DeblurringConfig, snakemake: SnakemakeInternals, messages: ExitMessages
    ) -> None:
        self._config = config
        self._snakemake = snakemake
        self._messages = messages
        self._raw_data = RawData(config, snakemake, messages)
        self._needed_presets: dict[str, str] = {}
        # Computed once, because the results that it reads change while jobs run.
        self._shard_names = cache(self._find_shard_names)

    def manifest_wildcards(self, preset: str) -> dict[str, str | int]:
        """Return the wildcards of the job that writes the manifest of the data of a needed preset.

        Raises:
            UserError: if the preset is invalid or does not fit its data, results would lie among
                its sequences, or another preset has other data of the same name.
        """
        data_source = self._need(preset)
        self._add_unused_data_message(preset)
        self._require_spikes(preset)
        self._require_sequences_to_hold_out(preset)
        return {
            "dataset": data_source.name,
            "bins": self._config.settings_of(preset).DATA.NUM_VOXEL_BINS,
        }

    def checked_files(self, presets: Iterable[str]) -> list[str]:
        """Return the tables of alignments and the acceptances of the data of needed presets.

        Each is returned once.

        Raises:
            UserError: as :meth:`manifest_wildcards`.
        """
        files: dict[str, None] = {}
        for preset in presets:
            data_source = self._need(preset)
            self._require_spikes(preset)
            folder = self._config.data_folder(data_source.name)
            bins = self._config.settings_of(preset).DATA.NUM_VOXEL_BINS
            files[f"{folder}/alignment.csv"] = None
            files[f"{folder}/k{bins}/accepted.json"] = None
        return list(files)

    def _need(self, preset: str) -> DataSource:
        """Note that a target needs a preset, and return its data set.

        Raises:
            ConfigError: if there is no such preset, results would lie among its sequences, or
                another preset has other data of the same name.
        """
        data_source = self._config.data_source(preset)
        self._config.require_results_elsewhere(data_source)
        former = self._needed_presets.setdefault(data_source.name, preset)
        self._config.require_same_data(preset, former)
        if not self._snakemake.runs_locally:
            # Jobs of a cluster plan for themselves, and do not know which presets are needed.
            self._config.preset_with(data_source.name)
        return data_source

    def _require_spikes(self, preset: str) -> None:
        """Reject a preset with spikes for a folder without them, judged by names."""
        data_source = self._config.data_source(preset)
        survey = self._raw_data.survey(data_source)
        if not survey:
            return
        other_roots: list[Path] = []
        if not survey["spikes"]:
            first = survey["sequences"][0]
            root = Path(data_source.root)
            other_roots = spike_roots(root, first["split"], first["name"], data_source.layout)
        title = f"preset {preset}, {data_source.root}"
        settings = self._config.settings_of(preset)
        requirements.require_spikes(title, survey["spikes"], settings, other_roots)

    def _require_sequences_to_hold_out(self, preset: str) -> None:
        """Reject a preset that holds out sequences for data with a single training sequence."""
        settings = self._config.settings_of(preset)
        if settings.unchanged_weights is not None:
            return
        data_source = self._config.data_source(preset)
        split = f"{settings.DATA.TRAIN_SPLIT}/"
        sequences = self._expected_sequences(data_source)
        training = [name for name in sequences if name.startswith(split)]
        title = f"preset {preset}, {data_source.root}"
        requirements.require_sequences_to_hold_out(title, len(training), settings.DATA)

    def _expected_sequences(self, data_source: DataSource) -> list[str]:
        """Return the expected sequences as ``<split>/<name>``, from names and configuration.

        Sequences with faults count unless they are to be excluded: acceptance lists the faults.
        """
        if data_source.kind == "simulated":
            sources = self._config.settings.SIMULATE.SEQUENCES
            return [f"{source.SPLIT}/{source.SEQUENCE}" for source in sources]
        survey = self._raw_data.survey(data_source)
        if survey is None:
            return []
        if data_source.on_error == "stop":
            return [*surveyed_sequences(survey), *survey["excluded"]]
        return surveyed_sequences(survey)

    def _add_unused_data_message(self, preset: str) -> None:
        """Add a message on a preset that trains on generated data although DATA.ROOT is set."""
        root = self._config.settings.DATA.get("ROOT")
        data_source = self._config.data_source(preset)
        if data_source.kind != "demo" or root in (None, data_source.root):
            return
        if Path(root).is_dir():
            self._messages.add(
                f"preset {preset} takes generated data ({data_source.root}, its own DATA.ROOT), "
                f"not those of config/config.yaml ({root}); on these train light_small or light: "
                "snakemake --cores all train_light_small"
            )

    def _preset_with(self, dataset: str) -> str:
        """Return a preset with a data set: one that targets need, if any.

        Raises:
            ConfigError: as :meth:`DeblurringConfig.preset_with`, if targets need none.
        """
        if dataset in self._needed_presets:
            return self._needed_presets[dataset]
        return self._config.preset_with(dataset)

    def data_source(self, dataset: str) -> DataSource:
        """Return a data set by its name.

        Raises:
            ConfigError: if targets need no preset with it, and presets call different data so.
        """
        return self._config.data_source(self._preset_with(dataset))

    def store_options(self, dataset: str, bins: int) -> StoreOptions:
        """Return the options of the stores of a data set with K bins."""
        return self._config.store_options(self._preset_with(dataset), bins)

    def accept_options(self, dataset: str, bins: int) -> AcceptOptions:
        """Return the requirements for accepting a data set with K bins."""
        return self._config.accept_options(self._preset_with(dataset), bins)

    def names_version(self, dataset: str) -> str | None:
        """Return a line that changes when sequences are added or removed.

        None of generated data, which change with the jobs that make them, and of missing data.
        """
        survey = self._raw_data.survey(self.data_source(dataset))
        if survey is None:
            return None
        # Ignored folders change no result.
        used = {key: value for key, value in survey.items() if key != "passed_over"}
        return f"names below the data's folder: {json_digest(used)[:12]}"

    def raw_versions(self, dataset: str, shard: str) -> list[str]:
        """Return a line for each sequence of a shard that changes with its raw files.

        Empty for generated data, whose files change with the job that makes them.
        """
        states = self._raw_data.states(self.data_source(dataset))
        return [
            f"raw files of {name}: {states[name].version[:12]}"
            for name in shard_members(shard, states)
        ]

    def shard_files(self, dataset: str, folder: str) -> list[str]:
        """Return the file of every shard of a data set.

        Args:
            dataset: name of the data set.
            folder: folder below its results, ``ingest`` or ``k<bins>``.
        """
        shards = self._config.data_folder(dataset) / folder / "shards"
        return [f"{shards}/{shard}.json" for shard in self._shard_names(self.data_source(dataset))]

    def shard_threads(self, dataset: str, shard: str) -> int:
        """Return the processes of a job on a shard: one for each sequence.

        Snakemake caps the number at ``--cores``; before the survey, a job asks for all cores.
        """
        return len(shard_members(shard, self._sequences(self.data_source(dataset)))) or ALL_CORES

    def shard_damage(
        self, dataset: str, folder: str, shard: str, kind: ManifestKind[ShardManifest]
    ) -> str:
        """Describe the damaged results of a shard, among the sequences that its file lists.

        A sequence whose raw files could not be read counts as damaged.

        Args:
            dataset: name of the data set.
            folder: folder below its results, ``ingest`` or ``k<bins>``.
            shard: name of the shard.
            kind: kind of the shard's file.

        Returns:
            the number of damaged sequences and the name of the first; empty if there are none.
        """
        results = self._config.data_folder(dataset) / folder
        try:
            sequences = read_manifest(results / "shards" / f"{shard}.json", kind)["sequences"]
        except DataError:
            return ""
        entries = sorted(sequences.items())
        damaged = [name for name, entry in entries if is_damaged(results, name, entry)]
        if not damaged:
            return ""
        return f"results missing or damaged: {len(damaged)}, the first {damaged[0]}"

    def _find_shard_names(self, data_source: DataSource) -> list[str]:
        """Return the shards of a data set; those without sequences are left out once known."""
        limits = self._config.settings.SHARDS
        states = self._raw_data.states(data_source)
        nbytes = sum(state.nbytes for state in states.values())
        sequence_count = len(states) or len(data_source.sources)
        count = shard_count(sequence_count, nbytes, limits.SEQUENCES, limits.GB * 1e9)
        used = {shard_of(name, count) for name in self._sequences(data_source)}
        return sorted(used) or shard_names(count)

    def _sequences(self, data_source: DataSource) -> list[str]:
        """Return the sequences of a data set; empty before its survey is written."""
        states = self._raw_data.states(data_source)
        if states:
            return list(states)
        folder = self._config.data_folder(data_source.name)
        try:
            return surveyed_sequences(read_manifest(folder / "survey.json", SURVEY))
        except DataError:
            return []

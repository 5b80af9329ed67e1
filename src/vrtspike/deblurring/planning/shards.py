"""Shards of the data sets of a configuration: their files, processes and raw files."""

from __future__ import annotations

from functools import cache

from vrtspike.data.data_source import DataSource
from vrtspike.data.manifests import SURVEY, surveyed
from vrtspike.data.shards import shard_count, shard_members, shard_names, shard_of
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.io.manifests import read_manifest
from vrtspike.system.errors import DataError
from vrtspike.workflow.job_resources import ALL_CORES


class Shards:
    """The shards of data sets.

    Args:
        workflow: configuration with the size of shards.
        raw_data: the raw data sets.
    """

    def __init__(self, workflow: DeblurringWorkflow, raw_data: RawData) -> None:
        self._workflow = workflow
        self._raw_data = raw_data
        # Computed once, because the results that it reads change while jobs run.
        self.names = cache(self._find_names)

    def files(self, data_source: DataSource, folder: str) -> list[str]:
        """Return the file of every shard of a data set.

        Args:
            data_source: the data set.
            folder: folder below its results, ``ingest`` or ``k<bins>``.
        """
        shards = self._workflow.data_folder(data_source.name) / folder / "shards"
        return [f"{shards}/{shard}.json" for shard in self.names(data_source)]

    def threads(self, data_source: DataSource, shard: str) -> int:
        """Return the processes of a job on a shard: one for each sequence.

        Snakemake caps the number at ``--cores``; before the survey, a job asks for all cores.
        """
        return len(shard_members(shard, self._sequences(data_source))) or ALL_CORES

    def raw_versions(self, data_source: DataSource, shard: str) -> list[str]:
        """Return a line for each sequence of a shard that changes with its raw files.

        Empty for generated data, whose files change with the job that makes them.
        """
        states = self._raw_data.states(data_source)
        return [
            f"raw files of {name}: {states[name].version[:12]}"
            for name in shard_members(shard, states)
        ]

    def _find_names(self, data_source: DataSource) -> list[str]:
        """Return the shards of a data set; those without sequences are left out once known."""
        limits = self._workflow.settings.SHARDS
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
        folder = self._workflow.data_folder(data_source.name)
        try:
            return surveyed(read_manifest(folder / "survey.json", SURVEY))
        except DataError:
            return []

"""The logs of a run that may still be training, read on where the last reading ended."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from vrtspike.analysis.run_logs import RunLogs, log_table, require_metrics, timing_tables
from vrtspike.monitoring.records import GrowingRecords, last_records
from vrtspike.runs.file_names import LOGS, TIMING, TIMING_OF_STARTS

TIMING_BYTES = 2**20
"""End of the timings that is read: about a hundred steps, of files of gigabytes."""


class LiveLogs:
    """Reads the logs of a run repeatedly.

    Args:
        folder: a run folder or a published result folder.

    Raises:
        RunError: if there is no ``metrics.jsonl``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._metrics = GrowingRecords(require_metrics(folder))
        self._train = log_table([], "train", "loss")
        self._validation = log_table([], "validation")

    def read(self) -> RunLogs:
        """Return the logs so far; timings cover the last steps only, memory is left out.

        Raises:
            RunError: if a complete line is not JSON.
        """
        records, is_anew = self._metrics.read()
        train = log_table(records, "train", "loss")
        validation = log_table(records, "validation")
        if is_anew:
            self._train = train
            self._validation = validation
        else:
            self._train = _join(self._train, train)
            self._validation = _join(self._validation, validation)
        timing, steps = self._last_timings()
        memory = log_table([], "memory")
        return RunLogs(timing, steps, self._train, self._validation, memory)

    def _last_timings(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the timings of the last steps of the last start, and the steps."""
        published = self._folder / TIMING
        files = sorted((self._folder / LOGS).glob(TIMING_OF_STARTS))
        if published.is_file():
            files = [published]
        records = last_records(files[-1], TIMING_BYTES) if files else []
        return timing_tables(record for record in records if record["kind"] == "step")


def _join(earlier: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Join tables of a log; the later row of a step counts."""
    tables = [table for table in (earlier, later) if not table.empty]
    if len(tables) < 2:
        return (tables or [earlier])[0]
    # Columns without a number would have different types in the two tables.
    numbers = [table.apply(pd.to_numeric) for table in tables]
    joined = pd.concat(numbers, ignore_index=True).drop_duplicates("step", keep="last")
    return joined.sort_values("step", kind="stable", ignore_index=True)

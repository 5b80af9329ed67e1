"""Publishing a finished run atomically, and reading published runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vrtspike.config.loading import override_settings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.io.files import file_digest, replaced_folder, write_json
from vrtspike.io.records import iter_records, read_records
from vrtspike.runs import file_names
from vrtspike.runs.folder import read_record
from vrtspike.runs.identity import RunIdentity, result_settings
from vrtspike.runs.validation_pictures import find_pictures, picture_file, spread_steps
from vrtspike.system.errors import ConfigError, RunError

_EXPECTED = "no such file; expected the folder of a finished run, such as results/train/<preset>"
DIGESTED = (file_names.WEIGHTS, file_names.STATISTICS)
"""Files of a published run whose SHA-256 is in ``run.json``: every result depends on them."""


@dataclass(frozen=True)
class PublishedRun(RunIdentity):
    """A run, finished or not, with what its ``run.json`` says of the training.

    Attributes:
        parameters: number of parameters of its model.
        steps: optimiser steps it was trained for.
        processes: number of training processes of the last start.
        micro_batches: micro-batches of an optimiser step, of all processes together; the same at
            every start. None if it was not recorded.
        precision: arithmetic of the training on its device; None if it was not recorded.
    """

    parameters: int | None = None
    steps: int | None = None
    processes: int = 1
    micro_batches: int | None = None
    precision: str | None = None

    @classmethod
    def from_record(cls, identity: RunIdentity, record: Mapping[str, Any]) -> PublishedRun:
        """Return a run from the contents of ``settings.json`` and ``run.json``."""
        return cls(
            **vars(identity),
            parameters=record.get("parameters"),
            steps=record.get("step"),
            processes=int(record.get("processes") or 1),
            micro_batches=record.get("micro_batches"),
            precision=record.get("precision"),
        )

    @property
    def samples_per_step(self) -> int | None:
        """Samples of an optimiser step, of all processes together; None if it is not known."""
        if self.micro_batches is None:
            return None
        return self.settings.TRAIN.BATCH_SIZE * self.micro_batches

    @property
    def micro_steps(self) -> int:
        """Micro-steps of each process in an optimiser step since the last start.

        They differ from those of the settings if the run continued on another number of processes.
        """
        if self.micro_batches is None:
            return self.settings.TRAIN.GRADIENT_ACCUMULATION_STEPS
        return self.micro_batches // self.processes

    def with_overrides(self, overrides: Sequence[str]) -> PublishedRun:
        """Return the run with other settings of its evaluation, as ``TEST.TILE.SIZE=128``.

        Raises:
            ConfigError: if an override is invalid, or would change the training.
        """
        settings = override_settings(
            self.settings, parse_overrides(overrides), file_names.SETTINGS_FILE
        )
        if result_settings(settings) != result_settings(self.settings):
            raise ConfigError(
                f"--set {' '.join(overrides)}: would change the settings of the training; give "
                "keys of TEST, or keys that change no result"
            )
        return replace(self, settings=settings)


def read_published(folder: str | Path) -> PublishedRun:
    """Read ``run.json`` and ``settings.json`` of a result folder (``results/train/<preset>``).

    Raises:
        RunError: if one of them is missing, damaged or not what training writes.
    """
    folder = Path(folder)
    record = read_record(folder)
    if record is None:
        raise RunError(f"{folder / file_names.RUN_RECORD}: {_EXPECTED}")
    return PublishedRun.from_record(RunIdentity.read(folder), record)


def read_finished(folder: Path) -> PublishedRun:
    """Read a result folder as :func:`read_published`, and require its weights.

    Raises:
        RunError: as :func:`read_published`, or if the weights are missing.
    """
    published = read_published(folder)
    if not (folder / file_names.WEIGHTS).is_file():
        raise RunError(f"{folder / file_names.WEIGHTS}: {_EXPECTED}")
    return published


def require_published(weights: str | Path) -> None:
    """Reject weights or statistics that were changed after publishing.

    Args:
        weights: file of weights; without a ``run.json`` next to it nothing is checked.

    Raises:
        RunError: if one of the files was changed.
    """
    folder = Path(weights).parent
    record = read_record(folder)
    if record is None:
        return
    for name, kept in record.get("digests", {}).items():
        path = folder / name
        digest = file_digest(path) if path.is_file() else "no such file"
        if digest != kept:
            raise RunError(
                f"{path}: was changed after it was published: found {digest}, expected the SHA-256 "
                f"{kept}. Copy the whole folder again from its origin, or remove it and train again"
            )


_RECORDED = ["kind", "step", "epoch", "time"]
"""Columns that every record of a run has."""
_COPIED = (*DIGESTED, file_names.SETTINGS_FILE, file_names.CODE, file_names.METRICS_LOG)


def publish(folder: Path, output: Path) -> None:
    """Copy the result of the finished run in ``folder`` to ``output``, which is replaced.

    :mod:`vrtspike.runs.file_names` lists the files. ``timing.jsonl`` has each step once, even if
    the run was resumed; ``run.json`` has the SHA-256 of :data:`DIGESTED` files.

    Raises:
        RunError: if the run is not finished, or lacks files.
    """
    # Imported here, because a training starts without this module.
    import pandas as pd

    record = read_record(folder) or {"status": "not begun"}
    status = record["status"]
    if status != "finished":
        raise RunError(f"{folder}: the run is {status}; only a finished run can be published")
    logs = folder / file_names.LOGS
    with replaced_folder(output) as temporary:
        for path in (*(folder / name for name in _COPIED), logs / file_names.MEMORY_LOG):
            if not path.is_file():
                raise RunError(f"{path}: no such file; remove {folder} to train it again")
            shutil.copyfile(path, temporary / path.name)
        digests = {name: file_digest(temporary / name) for name in DIGESTED}
        write_json(temporary / file_names.RUN_RECORD, {**record, "digests": digests})
        _join_timings(logs, temporary / file_names.TIMING_LOG)
        _copy_pictures(folder, temporary)
        records = read_records(folder / file_names.METRICS_LOG)
        # A run that trained nothing has no record; readers of tables need a header.
        table = pd.json_normalize(records) if records else pd.DataFrame(columns=_RECORDED)
        table.to_csv(temporary / file_names.METRICS_TABLE, index=False)


def _copy_pictures(folder: Path, output: Path) -> None:
    """Copy the pictures of some validations; a long run has thousands."""
    pictures = find_pictures(folder)
    for step in spread_steps(list(pictures)):
        for name, path in pictures[step].items():
            target = picture_file(output, step, name)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)


def _join_timings(logs: Path, target: Path) -> None:
    """Write the timings of the steps of all starts into one file."""
    with target.open("w", encoding="utf-8") as stream:
        for path in sorted(logs.glob(file_names.TIMING_OF_STARTS)):
            for record in iter_records(path):
                if record["kind"] == "step":
                    stream.write(json.dumps(record) + "\n")

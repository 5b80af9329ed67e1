"""Logs of a run: records, trackers, pictures and weights."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.files import atomic_path, remove_leftovers
from vrtspike.io.images import write_png
from vrtspike.io.records import RecordWriter, truncate_records
from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.monitoring.display import Display
from vrtspike.monitoring.memory import categories_line, measure_memory, memory_line, memory_warnings
from vrtspike.runs import file_names
from vrtspike.runs.folder import RunRecord, is_finished
from vrtspike.runs.validation_pictures import picture_file
from vrtspike.training.trackers import Tracker
from vrtspike.training.validation import ValidationPictures

_MEMORY = f"{file_names.LOGS}/{file_names.MEMORY_LOG}"


class RunLog:
    """The logs of one run; only the first process writes.

    Args:
        folder: the run's folder.
        fingerprint: digest that identifies the run's computation; kept in every checkpoint.
        settings: settings of the run.
        display: display for messages.
        enabled: true if this process writes.
        trackers: TensorBoard and other trackers, which get all values.
    """

    def __init__(
        self,
        folder: str | Path,
        fingerprint: str,
        settings: RunSettings,
        display: Display,
        *,
        enabled: bool,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        self.folder = Path(folder)
        self.checkpoints = self.folder / file_names.CHECKPOINTS
        self.fingerprint = fingerprint
        self.record = RunRecord(self.folder, enabled)
        self._enabled = enabled
        self._settings = settings
        self.display = display
        self._trackers = trackers
        self._metrics: RecordWriter | None = None
        self._memory: RecordWriter | None = None

    def begin(self, step: int, validated_step: int = 0, epoch_is_open: bool = False) -> None:
        """Open the logs to continue after ``step``; later records are removed.

        Args:
            step: finished optimiser steps.
            validated_step: step of the last validation; later validations are repeated.
            epoch_is_open: true if the epoch of ``step`` has no summary yet.
        """
        if not self._enabled:
            return
        for folder in (self.folder, self.checkpoints):
            remove_leftovers(folder, older_than_s=0.0)
        last_epoch_end = step - 1 if epoch_is_open else step
        limits = {"validation": validated_step, "epoch": last_epoch_end}
        timings = (self.folder / file_names.LOGS).glob(file_names.TIMING_OF_STARTS)
        for path in (self.folder / file_names.METRICS_LOG, self.folder / _MEMORY, *timings):
            truncate_records(path, step, **limits)
        self._metrics = RecordWriter(self.folder / file_names.METRICS_LOG)
        self._memory = RecordWriter(self.folder / _MEMORY)
        for tracker in self._trackers:
            tracker.begin(step)

    def write(self, kind: str, step: int, epoch: int, values: Mapping[str, Any]) -> None:
        """Add a record to ``metrics.jsonl``, and its values to the trackers.

        Args:
            kind: ``train``, ``epoch`` or ``validation``.
            step: finished optimiser steps, also of curves of epochs, so that TensorBoard drops
                those that a resumed run repeats.
            epoch: number of the epoch, from 1.
            values: values by name; the terms of the loss are a mapping ``losses``.
        """
        if self._metrics is None:
            return
        now = round(time.time(), 3)
        self._metrics.write({"kind": kind, "step": step, "epoch": epoch, **values, "time": now})
        curves = {f"loss/{name}": value for name, value in values.get("losses", {}).items()}
        curves |= {f"{kind}/{name}": float(v) for name, v in values.items() if name != "losses"}
        for tracker in self._trackers:
            tracker.log(step, curves)

    def write_pictures(self, step: int, pictures: ValidationPictures) -> None:
        """Write the pictures of a validation."""
        if not self._enabled:
            return
        for name, picture in pictures.items():
            write_png(picture_file(self.folder, step, name), picture)
        for tracker in self._trackers:
            tracker.log_pictures(step, pictures)

    def write_memory(self, step: int, device: torch.device, use: CacheStats | None = None) -> None:
        """Record and show memory, and warn if it is nearly full."""
        if self._memory is None:
            return
        now = round(time.time(), 3)
        record = {"kind": "memory", "step": step, "time": now, **measure_memory(device)}
        record["cache"] = None if use is None else use.record()
        self._memory.write(record)
        self.display.note(memory_line(record))
        for warning in memory_warnings(record, self._settings):
            self.display.show(f"warning: {warning}")

    def write_gpu_categories(self, record: dict[str, object]) -> None:
        """Record and show GPU memory by category."""
        if self._memory is not None:
            self._memory.write(record)
            self.display.note(categories_line(record))

    def flush(self) -> None:
        """Have the trackers write what they buffer; records are written at once."""
        for tracker in self._trackers:
            tracker.flush()

    def write_weights(self, model: nn.Module, name: str) -> None:
        """Write weights to a file of the run's folder."""
        if not self._enabled:
            return
        # Weights on a CPU are also copied: tied weights must not share memory in the file.
        state = {
            key: value.detach().to("cpu", copy=True).contiguous()
            for key, value in model.state_dict().items()
        }
        with atomic_path(self.folder / name) as path:
            save_file(state, path, metadata={"fingerprint": self.fingerprint})

    def close(self) -> None:
        """Close all files."""
        for stream in (self._metrics, self._memory):
            if stream is not None:
                stream.close()
        for tracker in self._trackers:
            tracker.close(is_finished(self.folder))

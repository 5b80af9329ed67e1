"""A clip restored into a folder: its files, metrics and warnings, as an object and in lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.config.tasks import Metric
from vrtspike.restoration.checks.no_reference import AGREEMENT_OUTSIDE
from vrtspike.restoration.folder.frame_metrics import (
    FRAME_METRICS,
    mean_metric,
    worse_frames_warnings,
)
from vrtspike.restoration.folder.record import RESTORE_RECORD, RESTORED, RestoreRecord
from vrtspike.restoration.inference.tiling import Tiling

if TYPE_CHECKING:
    import pandas as pd

WARNING = "warning: "
"""Prefix of the messages that are warnings."""


@dataclass(frozen=True, repr=False)
class RestoredFolder:
    """The results of :meth:`~vrtspike.restoration.trained_model.TrainedModel.restore_folder`.

    ``repr`` gives the summary that ``vrtspike restore`` prints.

    Attributes:
        folder: folder of the results.
        record: contents of its ``restore.json``.
        notes: messages on the input and on results of earlier calls, in order.
        no_reference: metrics that need no sharp frame, whose means are also shown.
    """

    folder: Path
    record: RestoreRecord
    notes: Sequence[str] = ()
    no_reference: Sequence[str] = ()

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    @property
    def files(self) -> list[Path]:
        """The restored frames, PNG, in order."""
        return [self.folder / RESTORED / f"{frame['frame']}.png" for frame in self._frames]

    @property
    def metrics(self) -> pd.DataFrame:
        """Metrics of each frame; rows are indexed by the frames' names.

        With sharp frames: ``psnr`` (dB) and ``ssim``; without: agreement with the spikes, as far as
        these were recorded. The suffix ``_blur`` marks metrics of the blurry frame.
        """
        import pandas as pd

        return pd.DataFrame(self._frames).set_index("frame")

    @property
    def warnings(self) -> list[str]:
        """Warnings on the input, and on frames that came out worse than the blurry ones."""
        noted = [note for note in self.notes if note.startswith(WARNING)]
        return [*noted, *worse_frames_warnings(self.record["verdicts"])]

    def summary(self) -> list[str]:
        """Return means of metrics, verdicts and the place of the results, in lines of text."""
        lines = []
        others = [Metric(name, name, "", decimals=2) for name in self.no_reference]
        for metric in (*FRAME_METRICS, AGREEMENT_OUTSIDE, *others):
            restored = mean_metric(self._frames, metric.name)
            if restored is None:
                continue
            blurry = mean_metric(self._frames, f"{metric.name}_blur")
            before = "" if blurry is None else f"{blurry:{metric.format}} -> "
            lines.append(f"{metric.label}, mean: {before}{restored:{metric.format}}")
        if self.record["doubts"]:
            lines.append("metrics from the spikes: left out, as the spikes do not fit the frames")
        lines += worse_frames_warnings(self.record["verdicts"])
        lines.append(f"spikes: {self.record['spikes']['from']}")
        seconds = self.record["seconds_per_frame"]
        cost = "" if seconds is None else f", {seconds:.1f} s each"
        tiling = Tiling(**self.record["tiling"]).describe()
        lines.append(
            f"{len(self._frames)} frames{cost} ({tiling}, {self.record['precision']}, "
            f"{self.record['recomputation']:.2f} x computed): {self.folder}; record: "
            f"{self.folder / RESTORE_RECORD}"
        )
        return lines

    @property
    def _frames(self) -> Sequence[Mapping[str, Any]]:
        """Name and metrics of each frame."""
        return self.record["frames"]

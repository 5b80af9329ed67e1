"""The report page of deblurring: words, columns and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vrtspike.analysis.evaluation_files import EvaluationSummary
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import Metric
from vrtspike.deblurring.alignment_section import alignment_part
from vrtspike.deblurring_settings import require_deblurring_settings
from vrtspike.metrics.metric import ImageMetric
from vrtspike.reporting.page_data import DataPart, ExtraReference, MetricMeans, Remark, TableRow
from vrtspike.reporting.task_report import CardWords, ExampleKinds, TaskReport
from vrtspike.restoration.page.gallery import GALLERY

if TYPE_CHECKING:
    from vrtspike.evaluation.summary import DeblurringSummary

_SPIKES_ALONE = "spikes alone"
_WHY_SPIKES_WIN = (
    "It is compared in grey, where no colour can be wrong, and needs no training: a model that was "
    "trained for a short time, or met motion that its data did not have, may stay behind it."
)
_RESTORED_WORSE = (
    "other cameras, motion, exposures and noise may restore worse. Restored frames are estimates, "
    "no evidence of what was there."
)
_EXPECTED_SPIKES = "Spikes are expected with integrating pixels, and an exposure of each frame."
_VALIDATED = {"held_out": "training sequences that are held out", "test": "test frames"}
"""Frames of validations by the value of DATA.VALIDATION."""


class DeblurringReport(TaskReport):
    """The words, columns and pictures of deblurring on the report page."""

    about = (
        "A spike camera takes no frames: each of its pixels gathers light and sends a spike "
        "whenever it has enough, up to tens of thousands of times a second. Recorded beside a "
        "camera's blurry frame, spikes tell what moved while its shutter was open."
    )
    # A metric in dB is PSNR of RGB unless it has another name.
    implied_metric = "PSNR"
    seconds = "restoring, s a frame"
    videos = "Videos: blurry, restored, sharp"
    values_note = "The metrics above are of whole test frames."
    examples = ExampleKinds(GALLERY, truth="sharp", gray=frozenset({"spikes"}))

    def frames_detail(self, summary: EvaluationSummary) -> str:
        """Return the folder of the blurry frames, if the summary names one."""
        folder = summary.get("blur_dir")
        return f", blurry ones of {folder}" if folder else ""

    def extra_reference(self, metric: Metric, summary: EvaluationSummary) -> ExtraReference:
        """Return the metrics of pictures from spikes alone, which the sensor sees in grey."""
        alone = cast("DeblurringSummary", summary).get("spikes_alone") or {}
        is_of_color = not isinstance(metric, ImageMetric) or metric.is_color_sensitive
        return {
            "title": _SPIKES_ALONE,
            "qualifier": "grey" if is_of_color else "",
            "column": f"{metric.name}_spikes",
            "mean": alone.get(metric.name),
        }

    def notes(self, summary: EvaluationSummary) -> list[str]:
        """Return the note on the pictures from spikes alone, if the summary has one."""
        note = cast("DeblurringSummary", summary).get("spikes_alone_note", "")
        if not note:
            return []
        return [f"Spikes alone: {note.removeprefix(f'{_SPIKES_ALONE}: ')}."]

    def remark(
        self, metrics: Sequence[MetricMeans], sequences: Sequence[TableRow]
    ) -> Remark | None:
        """Name the sequences where pictures from spikes alone are better than restored ones."""
        if not metrics:
            return None
        metric = metrics[0]
        better = [row["sequence"] for row in sequences if _is_better_alone(row, metric)]
        if not better:
            return None
        return {
            "sentence": f"On {len(better)} of {len(sequences)} sequences ({', '.join(better)}) the "
            f"picture from spikes alone has the better {metric['title']}.",
            "explanation": _WHY_SPIKES_WIN,
        }

    def validation_note(self, runs: Mapping[str, RunSettings]) -> str:
        """Name the frames whose crops were validated, which DATA.VALIDATION selects."""
        names: dict[str, list[str]] = {}
        for name, settings in runs.items():
            if settings.unchanged_weights is None:
                frames = _VALIDATED[require_deblurring_settings(settings).DATA.VALIDATION]
                names.setdefault(frames, []).append(name)
        if not names:
            return ""
        if len(names) == 1:
            return f"Validations while training are of centre crops of {next(iter(names))}."
        parts = [f"{', '.join(group)} of {frames}" for frames, group in names.items()]
        return f"Validations while training are of centre crops: {'; '.join(parts)}."

    def card(self, settings: RunSettings) -> CardWords:
        """Return the words of a model card, which mention spikes if the model uses them."""
        if require_deblurring_settings(settings).MODEL.USE_SPIKE:
            return CardWords(
                pipeline="image-to-image",
                tags=("deblurring", "spike-camera"),
                usage="restored = model.restore(frames, spikes)",
                worse=_RESTORED_WORSE,
                limits=(_EXPECTED_SPIKES,),
            )
        return CardWords(
            pipeline="image-to-image",
            tags=("deblurring",),
            usage="restored = model.restore(frames)",
            worse=_RESTORED_WORSE,
        )

    def data_parts(self, results: Path, datasets: Sequence[str]) -> list[DataPart]:
        """Return the alignment of spikes and frames of each data set."""
        files = [results / "data" / name / "alignment.csv" for name in datasets]
        parts = [part for part in map(alignment_part, files) if part is not None]
        if parts:
            return parts
        missing = "No table of the alignment of spikes and frames."
        return [{"title": "", "text": missing, "is_missing": True, "plots": [], "note": ""}]


def _is_better_alone(row: TableRow, metric: MetricMeans) -> bool:
    """Return whether the picture from spikes alone is better in a row of the sequences."""
    extra = metric["extra"]
    alone = None if extra is None else row.get(extra["column"])
    restored = row.get(metric["columns"][1])
    if alone is None or restored is None:
        return False
    return bool(alone > restored) if metric["larger_is_better"] else bool(alone < restored)

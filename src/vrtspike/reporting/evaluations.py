"""What an evaluation says on the page: figures, sequences, frames, examples and videos."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluations import metrics_of_task
from vrtspike.errors import RunError
from vrtspike.evaluation.names import (
    EXAMPLES,
    EXAMPLES_INDEX,
    FRAMES,
    SEQUENCES,
    SUMMARY,
    VIDEOS,
)
from vrtspike.reporting.stored import Stage

STAGE = Stage("evaluation", "evaluate again")

PARTS = ("blurry", "restored", "sharp", "spikes")
"""What an example may show, the first three always."""

REQUIRED = ("dataset", "split", "frames", "sequences", "metrics")
"""Keys that every summary has, besides the fingerprint of its run."""

UNSCALED = 1.0
"""The scale of evaluations that name none."""

MOST_FRAMES = 3000
"""Points of the plot of all frames; of more frames every n-th is drawn."""


@dataclass(frozen=True)
class MetricFigures:
    """One metric over the whole test split.

    Attributes:
        name: of the columns of tables.
        title: what sentences call it.
        unit: empty for none.
        decimals: digits after the point.
        larger_is_better: false where smaller values are better.
        definition: what exactly is measured.
        before: what it is compared with, such as ``blurry``.
        after: what the model makes, such as ``restored``.
        before_column: of tables.
        blurry: of what it is compared with.
        restored: of the model's result.
        gain: by how much these are better; None as the others where there is no finite number.
        spikes: of the classical reconstruction from spikes alone; None where it was not measured.
        spikes_in_gray: whether that is a comparison of grey values, of a metric that is of colours
            otherwise.
        reason: why figures are missing; empty where none is.
    """

    name: str
    title: str
    unit: str
    decimals: int
    larger_is_better: bool
    definition: str
    before: str
    after: str
    before_column: str
    blurry: float | None
    restored: float | None
    gain: float | None
    spikes: float | None
    spikes_in_gray: bool
    reason: str

    def text(self, value: float) -> str:
        """A figure with its unit, such as ``31.20 dB``."""
        return f"{value:.{self.decimals}f} {self.unit}".strip()


@dataclass(frozen=True)
class Example:
    """A frame to look at.

    Attributes:
        sequence: its sequence.
        label: sequence and scale, as files call them.
        frame: its name.
        chosen: why it was chosen: ``worst``, ``middle``, ``best`` of its sequence.
        metrics: its figures by column of ``frames.csv``.
        files: its pictures by what they show (:data:`PARTS`).
    """

    sequence: str
    label: str
    frame: str
    chosen: tuple[str, ...]
    metrics: Mapping[str, float | None]
    files: Mapping[str, Path]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation of one run.

    Attributes:
        dataset: name of the data set.
        split: its split.
        blur_dir: which of its blurry frames; empty where there are none.
        scale: of the figures; 1 where pictures are not scaled.
        frames: how many.
        sequences: how many.
        device: where it was computed.
        seconds_per_frame: including reading and measuring.
        metrics: figures over the whole split; frames are ranked by the first.
        spikes_note: what the figures of the spikes alone are of, or why there are none; empty where
            there are no spikes.
        sequence_columns: names of the columns of ``sequence_rows``.
        sequence_rows: a row per sequence and scale.
        frame_rows: sequence, frame, and blurry and restored figure of the first metric.
        frame_step: every so many-th frame is among these.
        worst: the frames with the worst figures: sequence, frame, figure.
        choice: how examples were chosen.
        examples: worst first.
        videos: files by label.
        figures: further pictures, by what they show.
    """

    dataset: str
    split: str
    blur_dir: str
    scale: float
    frames: int
    sequences: int
    device: str
    seconds_per_frame: float | None
    metrics: tuple[MetricFigures, ...]
    spikes_note: str
    sequence_columns: tuple[str, ...]
    sequence_rows: tuple[tuple[Any, ...], ...]
    frame_rows: tuple[tuple[str, str, float | None, float | None], ...]
    frame_step: int
    worst: tuple[tuple[str, str, float], ...]
    choice: str
    examples: tuple[Example, ...]
    videos: Mapping[str, Path]
    figures: Mapping[str, Path]

    @property
    def test_frames(self) -> tuple[str, str, str, float, int, int]:
        """What the figures are of; they compare with those of the same frames only."""
        return (
            self.dataset,
            self.split,
            self.blur_dir,
            self.scale,
            self.frames,
            self.sequences,
        )

    @property
    def leading(self) -> MetricFigures | None:
        """The metric that sentences name: the first with finite figures."""
        whole = (m for m in self.metrics if m.gain is not None and m.restored is not None)
        return next(whole, None)


def read_evaluation(folder: Path, fingerprint: str) -> Evaluation | str:
    """The evaluation in a folder, or why there is none.

    Args:
        folder: ``results/evaluate/<preset>``.
        fingerprint: of the run it has to be of.

    Raises:
        RunError: if a file of it is damaged or missing, or the summary lacks what it must say.
    """
    path = folder / SUMMARY
    if not path.is_file():
        return "not evaluated"
    summary = STAGE.read_json_of(path, fingerprint)
    if isinstance(summary, str):
        return summary
    if missing := [name for name in REQUIRED if name not in summary]:
        raise RunError(
            f"{path}: a summary without {', '.join(missing)}; {STAGE.again}, or let the problem "
            "write what docs/extending.md lists"
        )
    frames = STAGE.read_table(folder / FRAMES, {"sequence": str, "frame": str})
    sequences = STAGE.read_table(folder / SEQUENCES, {"sequence": str})
    metrics = _metrics(summary)
    choice, examples = _examples(folder / EXAMPLES)
    scale = float(summary.get("scale", UNSCALED))
    step = max(1, math.ceil(len(frames) / MOST_FRAMES))
    return Evaluation(
        dataset=str(summary["dataset"]),
        split=str(summary["split"]),
        blur_dir=str(summary.get("blur_dir", "")),
        scale=scale,
        frames=int(summary["frames"]),
        sequences=int(summary["sequences"]),
        device=str(summary.get("device", "")),
        seconds_per_frame=finite(summary.get("seconds_per_frame")),
        metrics=metrics,
        spikes_note=_spikes_note(summary),
        sequence_columns=tuple(map(str, sequences.columns)),
        sequence_rows=tuple(map(tuple, rows_of(sequences))),
        frame_rows=_frame_rows(frames, metrics, scale, step),
        frame_step=step,
        worst=_worst(summary, metrics),
        choice=choice,
        examples=examples,
        videos={video.stem: video for video in sorted((folder / VIDEOS).glob("*.mp4"))},
        figures={
            str(figure["caption"]): folder / figure["file"]
            for figure in summary.get("figures") or ()
        },
    )


def _spikes_note(summary: Mapping[str, Any]) -> str:
    unknown = "not measured by this evaluation" if "blur_dir" in summary else ""
    return str(summary.get("spikes_alone_note", unknown))


def finite(value: object) -> float | None:
    """A number, or None for what is none or not finite.

    >>> finite(2), finite(float("inf")), finite(None), finite("x")
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def rows_of(table: pd.DataFrame) -> list[list[Any]]:
    """Rows as JSON values: numbers of six digits, None for what is not finite."""
    return [[_json_value(value) for value in row] for row in table.itertuples(index=False)]


def _json_value(value: Any) -> Any:  # noqa: ANN401 - a value of a table
    if isinstance(value, str):
        return value
    number = finite(value.item() if hasattr(value, "item") else value)
    return None if number is None else float(f"{number:.6g}")


def _metrics(summary: Mapping[str, Any]) -> tuple[MetricFigures, ...]:
    """That which ranks frames first, then in the order of the table of metrics.

    What is not in that table comes last, under its name.
    """
    ranking = [name for entry in summary.get("worst") or () for name in entry]
    table = metrics_of_task(summary)
    names = [*ranking, *table, *summary["metrics"]]
    names = [name for name in dict.fromkeys(names) if name in summary["metrics"]]
    alone = summary.get("spikes_alone")
    alone = alone if isinstance(alone, dict) else {}
    found = []
    for name in names:
        figures, known = summary["metrics"][name], table.get(name)
        definition = summary.get("definitions", {}).get(name, "")
        before, after = (known.before, known.after) if known else ("blurry", "restored")
        found.append(
            MetricFigures(
                name=name,
                title=known.title if known else name,
                unit=known.unit if known else "",
                decimals=known.decimals if known else 4,
                larger_is_better=(
                    known.larger_is_better if known else "lower is better" not in definition
                ),
                definition=definition,
                before=before,
                after=after,
                before_column=known.columns[0] if known else f"{name}_blur",
                blurry=finite(figures.get(before)),
                restored=finite(figures.get(after)),
                gain=finite(figures.get("gain")),
                spikes=finite(alone.get(name)),
                spikes_in_gray=getattr(known, "of_colour", True),
                reason=str(figures.get("reason", "")),
            )
        )
    return tuple(found)


def _frame_rows(
    frames: pd.DataFrame, metrics: Sequence[MetricFigures], scale: float, step: int
) -> tuple[tuple[str, str, float | None, float | None], ...]:
    if not metrics:
        return ()
    name = metrics[0].name
    columns = ["sequence", "frame", metrics[0].before_column, name]
    if not set(columns) <= set(frames.columns):
        return ()
    of_scale = frames[frames["scale"] == scale] if "scale" in frames else frames
    rows = rows_of(of_scale[columns].iloc[::step])
    return tuple((str(a), str(b), c, d) for a, b, c, d in rows)


def _worst(
    summary: Mapping[str, Any], metrics: Sequence[MetricFigures]
) -> tuple[tuple[str, str, float], ...]:
    """The worst frames that an evaluation names, by the metric that ranks them."""
    return tuple(
        (str(each["sequence"]), str(each["frame"]), float(each[metrics[0].name]))
        for each in summary.get("worst") or ()
    )


def _examples(folder: Path) -> tuple[str, tuple[Example, ...]]:
    path = folder / EXAMPLES_INDEX
    if not path.is_file():
        return "", ()
    contents = STAGE.read_json(path)
    return str(contents["choice"]), tuple(_example(folder, e) for e in contents["examples"])


def _example(folder: Path, entry: Mapping[str, Any]) -> Example:
    files = {what: folder / entry["files"][what] for what in PARTS if what in entry["files"]}
    for what in PARTS[:3]:
        if what not in files or not files[what].is_file():
            raise RunError(
                f"{folder}: the {what} picture of frame {entry['frame']} of {entry['label']} is "
                "missing; evaluate again"
            )
    return Example(
        str(entry["sequence"]),
        str(entry["label"]),
        str(entry["frame"]),
        tuple(map(str, entry["chosen"])),
        {name: finite(value) for name, value in entry["metrics"].items()},
        {what: file for what, file in files.items() if file.is_file()},
    )

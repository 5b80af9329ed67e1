"""The report page: one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vrtspike.io.files import atomic_write_text
from vrtspike.reporting.embedded_media import (
    embed_examples,
    embed_validation_pictures,
    embed_videos,
)
from vrtspike.reporting.error_maps import error_colors
from vrtspike.reporting.offline_page import Headline, OfflinePage
from vrtspike.reporting.page_data import DataPart, ReportData, RunOnPage
from vrtspike.reporting.run_data import read_run_on_page
from vrtspike.reporting.task_report import TaskReport, task_reports, validation_note
from vrtspike.reporting.verdict import verdict
from vrtspike.runs.published import read_published

PAGE_BYTES = 19_000_000
"""Size to which pictures may fill a page; with their names it stays below 20 MB."""

SCRIPTS = (
    "dom.js",
    "tables.js",
    "viewer.js",
    "gallery.js",
    "charts.js",
    "report_charts.js",
    "saving.js",
    "validations.js",
    "page.js",
)

DATA = "data"
"""Section on the data of tasks."""

SECTIONS = {
    "pictures": "Pictures",
    "metrics": "Metrics",
    "training": "Training",
    "cost": "Time and memory",
    DATA: "Data",
    "findings": "Findings",
    "origin": "Origin",
}
"""Titles of the sections by their names in the page; one on data is left out if it is empty."""

ORDERS = ("typical first", "worst first", "best first")
"""Orders of the frames that a reader may choose; the first is that of a new page."""


def write_report_page(
    results: Path,
    presets: Sequence[str],
    preset_folder: Path,
    output: Path,
    page_bytes: int = PAGE_BYTES,
) -> Headline:
    """Write the report page on some runs.

    Args:
        results: folder of all results.
        presets: names of the runs, at least one.
        preset_folder: folder of the presets' files.
        output: path of the page.
        page_bytes: size limit; pictures are compressed until they fit.

    Returns:
        the start of the page.

    Raises:
        RunError: if a run is missing, or a file of its results is damaged.
        DataError: if a picture cannot be read.
    """
    runs = [read_run_on_page(results, name, preset_folder) for name in presets]
    reports = task_reports(run["task"] for run in runs)
    embed_videos(runs, results, output)
    embed_validation_pictures(runs, results)
    headline = verdict(runs)
    data = _report_data(headline, reports, runs, results)
    sections = SECTIONS.copy()
    if not data["data"]:
        del sections[DATA]
    intro = _joined(report.about for report in reports.values())
    html_page = OfflinePage(headline, sections, SCRIPTS, intro)
    budget = page_bytes - len(html_page.render(data).encode())
    data["pictures"] = embed_examples(runs, results, budget)
    atomic_write_text(output, html_page.render(data))
    return headline


def _report_data(
    headline: Headline, reports: Mapping[str, TaskReport], runs: list[RunOnPage], results: Path
) -> ReportData:
    """Return the data of the page, without example pictures."""
    # Runs of several tasks share the general words.
    words = next(iter(reports.values())) if len(reports) == 1 else TaskReport()
    return {
        "best": headline.preset,
        "runs": runs,
        "data": _data_parts(reports, runs, results),
        "galleries": {
            name: report.examples.gallery
            for name, report in reports.items()
            if report.examples is not None
        },
        "colours": error_colors(),
        "words": {
            "model": "Preset",
            "videos": words.videos,
            "left_out": " from worst to best",
            "seconds": words.seconds,
        },
        "orders": ORDERS,
        "training_note": _training_note(reports, runs, results),
        "pictures": {"form": "", "left_out": 0, "folder": None},
    }


def _data_parts(
    reports: Mapping[str, TaskReport], runs: Sequence[RunOnPage], results: Path
) -> list[DataPart]:
    """Return the parts of the section on the data, of all tasks."""
    parts = []
    for name, report in reports.items():
        datasets = dict.fromkeys(run["dataset"] for run in runs if run["task"] == name)
        parts += report.data_parts(results, list(datasets))
    return parts


def _training_note(
    reports: Mapping[str, TaskReport], runs: Sequence[RunOnPage], results: Path
) -> str:
    """Return the sentences below the curves of training."""
    names = [run["name"] for run in runs]
    settings = {name: read_published(results / "train" / name).settings for name in names}
    return _joined(
        [validation_note(settings), *(report.values_note for report in reports.values())]
    )


def _joined(texts: Iterable[str]) -> str:
    """Join texts that are not empty, each once."""
    return " ".join(dict.fromkeys(text for text in texts if text))

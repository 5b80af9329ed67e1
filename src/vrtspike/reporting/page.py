"""The report page: one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vrtspike.io.files import atomic_write_text
from vrtspike.reporting.embedding import embed_examples, embed_validation_pictures, embed_videos
from vrtspike.reporting.error_maps import error_colors
from vrtspike.reporting.offline_page import Headline, OfflinePage
from vrtspike.reporting.report_data import DataPart, ReportData, RunOnPage
from vrtspike.reporting.run_data import read_run_on_page
from vrtspike.reporting.task_page import TaskPage, task_pages, validation_note
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
    pages = task_pages(run["task"] for run in runs)
    embed_videos(runs, results, output)
    embed_validation_pictures(runs, results)
    headline = verdict(runs)
    data = _report_data(headline, pages, runs, results)
    sections = SECTIONS.copy()
    if not data["data"]:
        del sections[DATA]
    intro = _joined(page.about for page in pages.values())
    page = OfflinePage(headline, sections, SCRIPTS, intro)
    budget = page_bytes - len(page.render(data).encode())
    data["pictures"] = embed_examples(runs, results, budget)
    atomic_write_text(output, page.render(data))
    return headline


def _report_data(
    headline: Headline, pages: Mapping[str, TaskPage], runs: list[RunOnPage], results: Path
) -> ReportData:
    """Return the data of the page, without example pictures."""
    # Runs of several tasks share the general words.
    words = next(iter(pages.values())) if len(pages) == 1 else TaskPage()
    return {
        "best": headline.preset,
        "runs": runs,
        "data": _data_parts(pages, runs, results),
        "galleries": {
            name: page.examples.gallery for name, page in pages.items() if page.examples is not None
        },
        "colours": error_colors(),
        "words": {
            "model": "Preset",
            "videos": words.videos,
            "left_out": " from worst to best",
            "seconds": words.seconds,
        },
        "orders": ORDERS,
        "training_note": _training_note(pages, runs, results),
        "pictures": {"form": "", "left_out": 0, "folder": None},
    }


def _data_parts(
    pages: Mapping[str, TaskPage], runs: Sequence[RunOnPage], results: Path
) -> list[DataPart]:
    """Return the parts of the section on the data, of all tasks."""
    parts = []
    for name, page in pages.items():
        datasets = dict.fromkeys(run["dataset"] for run in runs if run["task"] == name)
        parts += page.data_parts(results, list(datasets))
    return parts


def _training_note(pages: Mapping[str, TaskPage], runs: Sequence[RunOnPage], results: Path) -> str:
    """Return the sentences below the curves of training."""
    names = [run["name"] for run in runs]
    settings = {name: read_published(results / "train" / name).settings for name in names}
    return _joined([validation_note(settings), *(page.values_note for page in pages.values())])


def _joined(texts: Iterable[str]) -> str:
    """Join texts that are not empty, each once."""
    return " ".join(dict.fromkeys(text for text in texts if text))

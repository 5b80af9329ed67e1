"""A page with the curves of several trainings, for sweeps and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.config.seed_names import split_seed
from vrtspike.config.tasks import find_task
from vrtspike.io.files import atomic_write_text
from vrtspike.reporting.offline_page import Headline, OfflinePage
from vrtspike.reporting.page_data import Curves
from vrtspike.reporting.performance_data import training_curves
from vrtspike.reporting.task_report import validation_note
from vrtspike.runs.published import PublishedRun, read_published

CURVES_PAGE = "curves.html"
SCRIPTS = ("dom.js", "charts.js", "saving.js", "curves.js")


def write_curves_page(
    folders: Sequence[Path],
    output: Path,
    title: str,
    values: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write the curves of trainings and of their validations as a page that works offline.

    Args:
        folders: result folders of the runs (``results/train/<preset>``), in order.
        output: folder for :data:`CURVES_PAGE`.
        title: heading of the page.
        values: values of each member of a sweep by the name of its preset, which name the lines.

    Raises:
        RunError: if a run is missing, or its log is damaged.
    """
    runs = [read_published(folder) for folder in folders]
    names = [line_name(run.name, values or {}) for run in runs]
    settings = {name: run.settings for name, run in zip(names, runs, strict=True)}
    data = {
        "runs": [
            {"name": name, "curves": _curves(folder, run)}
            for folder, run, name in zip(folders, runs, names, strict=True)
        ],
        "training_note": validation_note(settings),
    }
    facts = [f"{len(runs)} trainings", "metrics of validations, not of the test split"]
    page = OfflinePage(Headline(title, facts), {"training": "Curves"}, SCRIPTS)
    atomic_write_text(output / CURVES_PAGE, page.render(data))


def _curves(folder: Path, run: PublishedRun) -> Curves:
    """Return the curves of a run."""
    metrics = find_task(run.settings.TASK).METRICS
    return training_curves(read_run_logs(folder), metrics)


def line_name(name: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of a run with the values that a sweep gave its preset, if any.

    >>> line_name("rates-1f-seed-2", {"rates-1f": {"TRAIN.OPTIM.LR": 0.01, "TRAIN.EMA": 0.9}})
    'rates-1f-seed-2: LR 0.01, EMA 0.9'
    """
    member, _ = split_seed(name)
    words = [f"{key.rpartition('.')[2]} {value}" for key, value in values.get(member, {}).items()]
    return f"{name}: {', '.join(words)}" if words else name

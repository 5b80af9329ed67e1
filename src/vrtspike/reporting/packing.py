"""Packing a run as a folder for publication: weights, settings, statistics, evaluation, model card.

The folder suits the Hugging Face hub, and can be read like the run itself
(:func:`~vrtspike.runs.published.read_finished`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vrtspike.analysis.evaluation_files import EvaluationSummary, find_evaluation
from vrtspike.config.tasks import find_task
from vrtspike.io.files import atomic_path, file_digest, write_json
from vrtspike.reporting.task_report import task_report
from vrtspike.runs.file_names import (
    CARD,
    EVALUATION,
    RUN_RECORD,
    SETTINGS_FILE,
    STATISTICS,
    WEIGHTS,
)
from vrtspike.runs.folder import read_record
from vrtspike.runs.identity import without_folders
from vrtspike.runs.published import PublishedRun, read_finished, require_published
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.user_environment import free_bytes

_OTHER_BYTES = 100_000
"""Upper limit of the size of settings, evaluation and card."""
_RECORD_KEYS = (
    "schema",
    "status",
    "name",
    "fingerprint",
    "dataset_digest",
    "step",
    "parameters",
    "micro_batches",
)
PRECISION = "weights_precision"
"""Key of a pack's ``run.json``: the type of its weights; ``precision`` is that of a training."""
_PLAIN = re.compile(r"[A-Za-z][\w.-]*")
"""A licence that YAML reads as a text without quotes."""
_MARKS = re.compile(r"[\\`*_\[\]<>#|&~!]")
"""Characters with a meaning in Markdown."""


def pack_run(
    folder: Path, output: Path, license: str, *, half: bool = False, evaluation: Path | None = None
) -> list[str]:
    """Write a run's result as a folder for publication, without hosts and logs.

    Private settings are left out; of paths outside the project only the last part stays.

    Args:
        folder: ``results/train/<preset>``.
        output: the folder; it must not exist.
        license: licence for the card: an identifier of the hub, such as ``mit``; ``other`` for
            none.
        half: if true, weights are written in half precision.
        evaluation: folder of the run's evaluation; None is ``results/evaluate/<preset>``.

    Returns:
        messages on parts that could not be packed.

    Raises:
        ConfigError: if ``output`` exists.
        RunError: if the run is not finished, or was changed after publishing, or a weight is too
            large for half precision.
    """
    if output.exists():
        raise ConfigError(f"{output}: already exists; give another name, or remove it")
    run = read_finished(folder)
    # Importing PyTorch takes seconds; a missing folder is reported before.
    from vrtspike.io.weights import floating_type, write_half

    require_published(folder / WEIGHTS)
    record = read_record(folder) or {}
    summary = find_evaluation(folder, run, evaluation)
    weights = folder / WEIGHTS
    statistics = folder / STATISTICS
    _require_space(output, weights.stat().st_size + _OTHER_BYTES)
    with atomic_path(output) as temporary:
        temporary.mkdir(parents=True)
        if half:
            write_half(weights, temporary / WEIGHTS)
        else:
            shutil.copyfile(weights, temporary / WEIGHTS)
        if statistics.is_file():
            shutil.copyfile(statistics, temporary / STATISTICS)
        write_json(temporary / SETTINGS_FILE, run.public_contents())
        if summary is not None:
            write_json(temporary / EVALUATION, without_folders(summary))
        digests = {path.name: file_digest(path) for path in sorted(temporary.iterdir())}
        kept = {name: record[name] for name in _RECORD_KEYS if name in record}
        git = record.get("environment", {}).get("git")
        kept |= {"git": git, PRECISION: floating_type(temporary / WEIGHTS)}
        write_json(temporary / RUN_RECORD, kept | {"digests": digests})
        card = _card(run, kept, summary, license)
        (temporary / CARD).write_text(card, encoding="utf-8")
    missing = f"no metrics: evaluate it first (snakemake --cores all evaluate_{run.name})"
    return [missing] if summary is None else []


def _require_space(output: Path, size: int) -> None:
    """Reject a folder on a disk with too little space, before anything is written."""
    free = free_bytes(output)
    if free < size:
        raise RunError(
            f"{output}: {size / 1e6:.1f} MB are needed, {free / 1e6:.1f} MB are free on that "
            "disk; free space there, or give another folder"
        )


def _card(
    run: PublishedRun, record: Mapping[str, Any], summary: EvaluationSummary | None, license: str
) -> str:
    """Return the model card: front matter for the hub, then the description.

    Args:
        run: record of the training.
        record: ``run.json`` of the pack.
        summary: summary of the run's evaluation; None without one.
        license: licence of the weights.
    """
    from vrtspike.plotting.templates import TEMPLATES

    settings = run.settings
    return TEMPLATES.get_template("reporting/model_card.md").render(
        plain=markdown_text,
        code=markdown_code,
        quoted=_quote,
        license=license if _PLAIN.fullmatch(license) else _quote(license),
        run=run,
        model=settings.value("MODEL.TYPE"),
        words=task_report(settings.TASK).card(settings),
        kept=settings.unchanged_weights is not None,
        dataset=(summary or {}).get("dataset") or Path(run.dataset).name,
        git=record["git"],
        precision=record[PRECISION],
        samples=run.samples_per_step,
        evaluation=summary,
        metrics=find_task(settings.TASK).METRICS,
    )


def _quote(text: str) -> str:
    """Quote a text so that Python and YAML read it alike."""
    return json.dumps(text, ensure_ascii=False)


def markdown_text(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged, in one line.

    >>> print(markdown_text("a_b|<c>"))
    a\\_b\\|\\<c\\>
    """
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))


def markdown_code(text: str) -> str:
    """Format a text as code in Markdown, between more backticks than it contains in a row.

    >>> print(markdown_code("demo"), markdown_code("a`b"))
    `demo` `` a`b ``
    """
    line = " ".join(text.split())
    if "`" not in line:
        return f"`{line}`"
    longest = max(len(run) for run in re.findall("`+", line))
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}"

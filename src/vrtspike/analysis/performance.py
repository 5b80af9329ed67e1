"""The performance analysis of one run: tables, plots, findings, a proposed preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from vrtspike.analysis.diagnosis.findings import (
    Finding,
    diagnose_run,
    findings_table,
    preset_text,
    proposed_keys,
)
from vrtspike.analysis.run_logs import RunLogs, read_run_logs
from vrtspike.analysis.run_measurements import RunMeasurements, measure_run
from vrtspike.analysis.section_times import summarize_sections, throughput
from vrtspike.config.run_schema import unchanged_weights_note
from vrtspike.config.seed_names import split_seed
from vrtspike.config.tasks import Metric, find_task
from vrtspike.io.files import atomic_write_text, finite_or_null, write_json
from vrtspike.io.flatten import ABSENT
from vrtspike.monitoring.timing_text import STEP_SECTION
from vrtspike.plotting.drawing import drawn_figure, show_text
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.published import PublishedRun, read_published

FINDINGS = "findings"
PROPOSED = "proposed.yaml"

MAX_BARS = 24
_TRAINING = {"loss": "loss", "grad_norm": "gradient norm", "lr": "learning rate"}
"""Titles of the curves of training, by column of its log."""
_LOGARITHMIC = ("loss", "grad_norm")

_FORMATS = dict.fromkeys(("mean", "p50", "p95", "min", "max"), ".2f") | {"share": ".1%"}


@dataclass(frozen=True)
class RunAnalysis:
    """The analysis of one run.

    Attributes:
        run: identity of the run; logs of another program have no fingerprint.
        logs: logs of the run.
        measurements: measurements from the logs.
        findings: findings, the most important first.
        notes: sentences on the values.
    """

    run: PublishedRun
    logs: RunLogs
    measurements: RunMeasurements
    findings: Sequence[Finding]
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics of the run's task."""
        return find_task(self.run.settings.TASK).METRICS


def analyze_run(folder: Path) -> RunAnalysis:
    """Analyse a run, which may still train.

    Args:
        folder: the run's result folder, or its run folder (``runs/<preset>/<fingerprint>``).

    Raises:
        RunError: if the folder contains no run.
    """
    run = read_published(folder)
    logs = read_run_logs(folder)
    start = run.settings.unchanged_weights
    if start is not None:
        # Memory was logged, but no steps.
        note = unchanged_weights_note(start)
        return RunAnalysis(run, logs, RunMeasurements(), [], (f"{note[0].upper()}{note[1:]}.",))
    metrics = find_task(run.settings.TASK).METRICS
    measurements = measure_run(logs, run.micro_steps, metrics)
    findings = diagnose_run(measurements, run.settings, run.precision)
    return RunAnalysis(run, logs, measurements, findings)


def write_analysis(analysis: RunAnalysis, output: Path) -> None:
    """Write tables, plots, ``findings.{json,csv,html}`` and ``proposed.yaml`` into ``output``.

    The tables hold sections, throughput and memory.
    """
    logs = analysis.logs
    sections = summarize_sections(logs.timing, logs.starts)
    rates = throughput(logs.steps, logs.timing)
    tables = {"timing": sections, "throughput": rates, "memory": logs.memory}
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        atomic_write_text(output / f"{name}.csv", text)
    plot_time_per_section(output / "time_per_section.svg", sections)
    plot_curves(output / "loss.svg", logs.train, _TRAINING, "no training step was logged")
    titles = {metric.name: f"validation {metric.label}" for metric in analysis.metrics.values()}
    plot_curves(output / "metrics.svg", logs.validation, titles, "no validation in this run")
    _write_findings(output, analysis, sections)


def _write_findings(output: Path, analysis: RunAnalysis, sections: pd.DataFrame) -> None:
    """Write ``findings.{json,csv,html}`` and ``proposed.yaml``."""
    findings = analysis.findings
    run = analysis.run
    keys = proposed_keys(findings, run.settings)
    table = findings_table(findings)
    contents = {
        "preset": run.name,
        "fingerprint": run.fingerprint or None,
        "measurements": finite_or_null(asdict(analysis.measurements)),
        "findings": [asdict(finding) for finding in findings],
        "proposed": keys,
    }
    write_json(output / f"{FINDINGS}.json", contents)
    atomic_write_text(output / f"{FINDINGS}.csv", table.to_csv(index=False))
    base, _ = split_seed(run.name)
    ablation = run.settings.ablation
    is_variant = ablation is not None and bool(ablation.origin(base))
    if not run.fingerprint or is_variant:
        base = ""  # a log of another program or a variant, which has no file of its own
    atomic_write_text(output / PROPOSED, preset_text(run.name, base, keys, findings))
    notes = list(analysis.notes)
    tables = []
    if findings:
        tables.append(Table(table, "Findings", "The most important first."))
    elif run.settings.unchanged_weights is None:
        notes.insert(0, "Nothing to fix: no symptom crossed its limit.")
    tables += [
        Table(measurements_table(analysis.measurements, analysis.metrics), "The run in numbers"),
        Table(
            sections.drop(columns="depth"),
            "Time per section",
            "Milliseconds of a step, the first of each start left out; share of the step's time.",
            _FORMATS,
        ),
    ]
    title = f"Performance of preset {run.name}"
    write_page(output / f"{FINDINGS}.html", title, " ".join(notes).strip(), tables)


def measurements_table(
    measurements: RunMeasurements, metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """Format the main measurements of a run, with their units, as rows of text."""
    speed = measurements.speed
    health = measurements.health
    memory = measurements.memory
    best = [
        (f"best validation {metrics[name].title}", metrics[name].text(value), "{}")
        for name, value in health.best.items()
    ]
    rows: list[tuple[str, object, str]] = [
        ("step", speed.step_ms, "{:.1f} ms"),
        ("forward pass of one micro-batch", speed.forward_ms, "{:.1f} ms"),
        ("wait for one batch", speed.data_ms, "{:.1f} ms"),
        ("share of waiting", speed.data_share, "{:.1%}"),
        ("slowest section", speed.slowest_section, "{0[0]}, {0[1]:.1f} ms"),
        ("throughput", speed.samples_per_second, "{:.3f} samples/s"),
        ("logged steps", health.logged_steps, "{}"),
        ("last loss", health.last_loss, "{:.4g}"),
        *best,
        ("memory of the run", memory.process_mb, "{:.0f} MB"),
        ("system memory at most", memory.system_percent, "{:.0f} %"),
        ("GPU memory at the peak", memory.gpu_peak_mb, "{:.0f} MB"),
        ("cache hit rate", memory.cache_hit_rate, "{:.0%}"),
    ]
    cells = []
    for name, value, form in rows:
        is_missing = value is None or value != value  # None or not a number
        cells.append((name, ABSENT if is_missing else form.format(value)))
    return pd.DataFrame(cells, columns=["measurement", "value"])


def plot_time_per_section(path: Path, sections: pd.DataFrame) -> None:
    """Plot the median time of each section of a step, with the 95th percentile.

    Args:
        path: file of the plot.
        sections: sections from :func:`summarize_sections`.
    """
    inner = sections[sections["section"].str.startswith(STEP_SECTION + "/")]
    shown = inner.nlargest(MAX_BARS, "p50").sort_index().iloc[::-1]

    with drawn_figure(path, (9.0, 1.4 + 0.26 * max(len(shown), 4))) as figure:
        axes = figure.subplots()
        if shown.empty:
            show_text(axes, "no section of a step was timed (LOG.ENABLE_TIMING_LOG)")
        else:
            upper = shown["p95"] - shown["p50"]
            axes.barh(shown["section"], shown["p50"], xerr=[0 * upper, upper])
            axes.set_xlabel("milliseconds of a step: median and 95th percentile")


def plot_curves(path: Path, table: pd.DataFrame, titles: Mapping[str, str], missing: str) -> None:
    """Plot columns over the steps, one panel for each.

    Args:
        path: file of the plot.
        table: table with a column ``step``; values that are not finite leave gaps.
        titles: titles of the panels, by column.
        missing: text of the plot if there are no values.
    """
    values = {}
    for column in titles:
        if column in table:
            numbers = pd.to_numeric(table[column]).astype(float)
            if numbers.notna().any():
                values[column] = numbers

    with drawn_figure(path, (8.0, 1.0 + 2.4 * max(1, len(values)))) as figure:
        rows = figure.subplots(max(1, len(values)), 1, sharex=True, squeeze=False)[:, 0]
        if not values:
            show_text(rows[0], missing)
        for axes, (column, numbers) in zip(rows, values.items(), strict=False):
            axes.plot(table["step"], numbers, marker=".")
            axes.set_ylabel(titles[column])
            if column in _LOGARITHMIC and numbers.min() > 0:
                axes.set_yscale("log")
        rows[-1].set_xlabel("optimiser step")

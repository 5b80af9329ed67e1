"""The performance analysis of one run: tables, plots, findings, a proposed preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vrtspike.analysis.figures import RunFigures, run_figures, summarize_sections, throughput
from vrtspike.analysis.findings import Finding, find, findings_table, preset_text, proposed_keys
from vrtspike.analysis.run_logs import RunLogs, read_run_logs
from vrtspike.config.problems import Metric, find_problem
from vrtspike.io.files import atomic_write_text, write_json
from vrtspike.monitoring.timing_layout import ROOT
from vrtspike.plotting.drawing import draw, show_text
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.published import PublishedRun, read_published

FINDINGS = "findings"
PROPOSED = "proposed.yaml"

MAX_BARS = 24
_BLUE = "#2b6cb0"
_LOGARITHMIC = ("loss", "gradient norm")
"""Panels with a logarithmic y axis."""
_TRAINING = {"loss": ["loss"], "gradient norm": ["grad_norm"], "learning rate": ["lr"]}
_MEMORY = {
    "run, MB": ["process_mb", "children_mb"],
    "system, %": ["system_percent"],
    "GPU, MB": ["gpu.allocated_mb", "gpu.reserved_mb", "gpu.peak_mb"],
}
"""Columns of the logs by the title of their panel."""

_FORMATS = dict.fromkeys(("mean", "p50", "p95", "min", "max"), ".2f") | {"share": ".1%"}


Curves = dict[str, tuple[pd.Series, pd.Series]]
"""Steps and values by label."""


@dataclass(frozen=True)
class Analysis:
    """The analysis of one run.

    Attributes:
        run: its identity; logs of another program have no fingerprint.
        logs: of the run.
        figures: of the logs.
        findings: the most important first.
        notes: sentences on the figures.
    """

    run: PublishedRun
    logs: RunLogs
    figures: RunFigures
    findings: Sequence[Finding]
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics of the run's problem."""
        return find_problem(self.run.settings.TASK).METRICS


def analyze_run(folder: Path, output: Path) -> list[Finding]:
    """Analyse a published run and write everything into ``output``.

    Args:
        folder: the run's result folder (``results/train/<preset>``).
        output: folder for the tables, the plots (SVG), ``findings.{json,csv,html}`` and
            ``proposed.yaml``.

    Returns:
        the findings, most important first.

    Raises:
        RunError: if the folder does not hold a finished run.
    """
    analysis = read_analysis(folder)
    write_analysis(analysis, output)
    return list(analysis.findings)


def read_analysis(folder: Path) -> Analysis:
    """Analyse a run, finished or not.

    Args:
        folder: the run's result folder, or its run folder (``runs/<preset>/<fingerprint>``).

    Raises:
        RunError: if the folder contains no run.
    """
    run, logs = read_published(folder), read_run_logs(folder)
    metrics = find_problem(run.settings.TASK).METRICS
    parts = run.settings.TRAIN.GRADIENT_ACCUMULATION_STEPS
    figures = run_figures(logs, parts, run.processes, metrics)
    return Analysis(run, logs, figures, find(figures, run.settings))


def write_analysis(analysis: Analysis, output: Path) -> None:
    """Write tables, plots, findings and proposed preset into ``output``.

    The tables are of sections, throughput, memory, and training with validation; each has a plot.
    """
    logs = analysis.logs
    sections, rates = summarize_sections(logs.timing), throughput(logs.steps, logs.timing)
    kinds = [logs.train.assign(kind="train"), logs.validation.assign(kind="validation")]
    metrics = pd.concat([kind for kind in kinds if not kind.empty] or kinds[:1])
    metrics = metrics.sort_values("step", kind="stable")
    metrics.insert(0, "kind", metrics.pop("kind"))
    tables = {"timing": sections, "throughput": rates, "memory": logs.memory, "metrics": metrics}
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        atomic_write_text(output / f"{name}.csv", text)
    plot_time_per_section(output / "time_per_section.svg", sections)
    validation = {f"validation {m.label}": [m.name] for m in analysis.metrics.values()}
    untimed = "no step was timed (LOG.ENABLE_TIMING_LOG)"
    for name, missing, table, panels in (
        ("throughput", untimed, rates, {"samples per second": ["samples_per_second"]}),
        ("memory", "no memory was logged", logs.memory, _MEMORY),
        ("loss", "no training step was logged", logs.train, _TRAINING),
        ("metrics", "no validation in this run", logs.validation, validation),
    ):
        curves = {title: _curves(table, columns) for title, columns in panels.items()}
        plot_lines(output / f"{name}.svg", curves, missing)
    _write_findings(output, analysis, sections)


def _curves(table: pd.DataFrame, columns: Sequence[str]) -> Curves:
    return {
        column: (table["step"], pd.to_numeric(table[column]).astype(float))
        for column in columns
        if column in table
    }


def _write_findings(output: Path, analysis: Analysis, sections: pd.DataFrame) -> None:
    findings, run = analysis.findings, analysis.run
    keys = proposed_keys(findings, run.settings)
    table = findings_table(findings)
    contents = {
        "schema": 1,
        "preset": run.name,
        "fingerprint": run.fingerprint or None,
        "figures": asdict(analysis.figures),
        "findings": [asdict(finding) for finding in findings],
        "proposed": keys,
    }
    write_json(output / f"{FINDINGS}.json", contents)
    atomic_write_text(output / f"{FINDINGS}.csv", table.to_csv(index=False))
    atomic_write_text(output / PROPOSED, preset_text(run.name, keys, findings))
    note = "" if findings else "Nothing to fix: no symptom crossed its limit."
    note = " ".join([note, *analysis.notes]).strip()
    write_page(
        output / f"{FINDINGS}.html",
        f"Performance of preset {run.name}",
        note,
        [
            *([Table(table, "Findings", "The most important first.")] if findings else []),
            Table(figures_table(analysis.figures, analysis.metrics), "The run in numbers"),
            Table(
                sections.drop(columns="depth"),
                "Time per section",
                "Milliseconds of a step, the first step left out; share of the step's time.",
                _FORMATS,
            ),
        ],
    )


def figures_table(figures: RunFigures, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """The main figures of a run, with their units, as rows of text."""
    speed, health, memory = figures.speed, figures.health, figures.memory
    rows: list[tuple[str, object, str]] = [
        ("step", speed.step_ms, "{:.1f} ms"),
        ("forward pass of one micro-batch", speed.forward_ms, "{:.1f} ms"),
        ("wait for one batch", speed.data_ms, "{:.1f} ms"),
        ("share of waiting", speed.data_share, "{:.1%}"),
        ("slowest section", speed.slowest_section, "{0[0]}, {0[1]:.1f} ms"),
        ("throughput", speed.samples_per_second, "{:.3f} samples/s"),
        ("logged steps", health.logged_steps, "{}"),
        ("last loss", health.last_loss, "{:.4g}"),
        *(
            (f"best validation {metrics[name].title}", metrics[name].text(value), "{}")
            for name, value in health.best.items()
        ),
        ("memory of the run", memory.process_mb, "{:.0f} MB"),
        ("system memory at most", memory.system_percent, "{:.0f} %"),
        ("GPU memory at the peak", memory.gpu_peak_mb, "{:.0f} MB"),
        ("cache hit rate", memory.cache_hit_rate, "{:.0%}"),
    ]
    shown = [(name, "–" if value is None else form.format(value)) for name, value, form in rows]
    return pd.DataFrame(shown, columns=["figure", "value"])


def plot_time_per_section(path: str | Path, sections: pd.DataFrame) -> None:
    """Median milliseconds of each section of a step, indented as a tree, with the 95th percentile.

    Args:
        path: of the plot.
        sections: from :func:`summarize_sections`.
    """
    inner = sections[sections["section"].str.startswith(ROOT + "/")]
    shown = inner.nlargest(MAX_BARS, "p50").sort_index().iloc[::-1]

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        if shown.empty:
            return show_text(axes, "no section of a step was timed (LOG.ENABLE_TIMING_LOG)")
        names = [section.removeprefix(ROOT + "/") for section in shown["section"]]
        axes.barh(names, shown["p50"], color=_BLUE, label="median")
        axes.plot(shown["p95"], names, "|", color="#1a202c", markersize=9, label="95th percentile")
        rows = zip(names, shown["p50"], shown["p95"], shown["share"], strict=True)
        for name, value, late, share in rows:
            end = max(float(value), float(late))
            axes.annotate(f"  {value:.1f} ms, {share:.0%}", (end, name), va="center", fontsize=8)
        axes.set_xlabel("milliseconds per step")
        axes.margins(x=0.22)
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower right", frameon=False)

    draw(path, fill, (9.0, 1.4 + 0.26 * max(len(shown), 4)))


def plot_lines(
    path: str | Path,
    panels: Mapping[str, Mapping[str, tuple[pd.Series, pd.Series]]],
    missing: str,
) -> None:
    """Plot curves over the steps, one panel for each quantity.

    Args:
        path: of the plot.
        panels: curves (label to x and y) by title of the panel (quantity and unit). Values that are
            not finite leave gaps.
        missing: text of the plot if there are no values.
    """
    filled = {
        title: kept
        for title, curves in panels.items()
        if (kept := {label: (x, y) for label, (x, y) in curves.items() if y.notna().any()})
    }

    def fill(figure: Figure) -> None:
        if not filled:
            return show_text(figure.subplots(), missing)
        rows = figure.subplots(len(filled), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, curves) in zip(rows, filled.items(), strict=True):
            for label, (x, y) in curves.items():
                marker = "o" if len(x) <= 25 else ""
                axes.plot(x, y, marker=marker, markersize=3, linewidth=1.4, label=label)
            axes.set_ylabel(title)
            if title in _LOGARITHMIC and min(float(y.min()) for _, y in curves.values()) > 0:
                axes.set_yscale("log")
            if len(curves) > 1:
                axes.legend(frameon=False, fontsize=8)
        rows[-1].set_xlabel("optimiser step")
        rows[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        return None

    draw(path, fill, (8.0, 1.0 + 2.4 * max(1, len(filled))))

"""Leaderboard: own runs and published results, a table for each protocol, in four formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vrtspike.analysis.comparisons.quality_tables import (
    SPREAD,
    STANDARD_ERROR,
    column_name,
    protocols,
    quality_table,
    require_seeds,
)
from vrtspike.analysis.evaluation_files import (
    NOT_COUNTED,
    NOT_COUNTED_NOTE,
    Summary,
    find_evaluation,
    reasons_not_to_count,
)
from vrtspike.config.seed_names import split_seed
from vrtspike.deblurring.training_cost import forward_gflop
from vrtspike.evaluation.paper_results import OTHER, read_paper_results
from vrtspike.io.files import atomic_write_text
from vrtspike.plotting.pages import Table, markdown_table, note_lines, texts, write_page
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.settings import Settings

COLUMNS = {
    "model": "model",
    "psnr": "PSNR, dB",
    "ssim": "SSIM",
    "dataset": "data set",
    "inputs": "inputs",
    "parameters": "parameters",
    "gflops": "GFLOP",
    "psnr_error": "standard error, dB",
    "psnr_spread": "spread over seeds, dB",
    "note": "note",
    "source": "source",
}
"""Columns of the leaderboard, and their headers."""
DEFAULT_COLUMNS = ("model", "psnr", "ssim", "dataset", "inputs", "parameters", "gflops")
"""Columns that are shown by default; notes and sources are then below the tables."""
HEADERS = {"protocol": "protocol", **COLUMNS}
"""Headers of all columns that tables may show."""
RANKED = ("psnr", "ssim")
"""Columns whose best values are marked; larger values are better."""
FORMATS = {
    "psnr": ".2f",
    "psnr_error": ".2f",
    "psnr_spread": ".2f",
    "ssim": ".4f",
    "parameters": ",.0f",
    "gflops": ".1f",
}
NOTE = (
    "A table for each protocol (docs/metrics.md): values of two tables do not compare, nor do "
    "those of two data sets. What an empty cell would say is not known here, or was not measured. "
    "GFLOP: forward pass for a frame of 256 x 256 pixels, two for each multiplication with its "
    "addition, matrix products and convolutions alone."
)
OTHER_TITLE = "Other protocols"
OTHER_NOTE = (
    "None of this project's protocols is how these were measured; the notes say what is known. "
    "They compare with nothing here, nor with one another."
)

Marks = tuple[Callable[[str], str], Callable[[str], str]]
"""Functions that mark the best and the second-best value."""


def own_results(folders: Sequence[Path]) -> pd.DataFrame:
    """Read the results of own presets, a row per preset and protocol: means over its seeds.

    Args:
        folders: result folders of runs (``<results>/train/<preset>``), with evaluations beside.

    Returns:
        :data:`COLUMNS`, ``protocol``, and ``counts``: False for results that are no test.
    """
    presets: dict[str, list[tuple[PublishedRun, Summary]]] = {}
    for folder in folders:
        run = read_published(folder)
        evaluation = find_evaluation(folder, run)
        if evaluation is not None:
            preset, _ = split_seed(run.name)
            presets.setdefault(preset, []).append((run, evaluation))
    rows = []
    for name, evaluations in presets.items():
        runs = [run for run, _ in evaluations]
        summaries = [summary for _, summary in evaluations]
        require_seeds(runs)
        rows += _rows(name, runs, summaries)
    return pd.DataFrame(rows, columns=["protocol", "counts", *COLUMNS])


def _rows(
    name: str, runs: Sequence[PublishedRun], summaries: Sequence[Summary]
) -> list[dict[str, object]]:
    """Return the rows of a preset, one for each protocol."""
    first = summaries[0]
    settings = runs[0].settings
    table, _ = quality_table([summaries])
    means = table.iloc[0]
    notes = [means.get("note")]
    if len(runs) > 1:
        notes.append(f"mean of {len(runs)} seeds")
    gflops = forward_gflop(name, settings) if isinstance(settings, Settings) else None
    common = {
        "counts": not any(reasons_not_to_count(summary) for summary in summaries),
        "model": name,
        "dataset": f"{first['dataset']}, {first['split']}",
        "inputs": "RGB and spikes" if settings.value("MODEL.USE_SPIKE") else "RGB",
        "parameters": runs[0].parameters,
        "gflops": gflops,
        "source": f"this project, run {', '.join(run.fingerprint for run in runs)}",
        "note": "; ".join(filter(None, notes)),
    }
    rows = []
    for protocol in protocols(first):
        psnr = column_name("psnr", protocol)
        ssim = column_name("ssim", protocol)
        quality = {
            "protocol": protocol,
            "psnr": means.get(f"{psnr} restored"),
            "psnr_error": means.get(f"{psnr} {STANDARD_ERROR}"),
            "psnr_spread": means.get(f"{psnr} {SPREAD}"),
            "ssim": means.get(f"{ssim} restored"),
        }
        rows.append({**common, **quality})
    return rows


def read_leaderboard(folders: Sequence[Path]) -> pd.DataFrame:
    """Read the rows of own runs and of published models.

    Args:
        folders: folders of the results, as for :func:`own_results`.

    Returns:
        rows sorted by protocol, data set and PSNR, the best first; other protocols come last, and
        after them the rows that do not count.
    """
    published = read_paper_results().assign(counts=True)
    parts = [part for part in (own_results(folders), published) if len(part)]
    table = pd.concat(parts).reindex(columns=["protocol", "counts", *COLUMNS])
    table = table.assign(counts=table["counts"].astype(bool), other=table["protocol"] == OTHER)
    order = {"counts": False, "other": True, "protocol": True, "dataset": True, "psnr": False}
    table = table.sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    return table.drop(columns="other")


def write_leaderboard(
    folders: Sequence[Path], output: Path, *, all_columns: bool = False
) -> pd.DataFrame:
    """Write the leaderboard in four formats.

    Args:
        folders: folders of the results, as for :func:`own_results`.
        output: folder for ``leaderboard.{csv,md,tex,html}``; the CSV file has all columns.
        all_columns: if true, show all columns in the other files, too, instead of only
            :data:`DEFAULT_COLUMNS`.

    Returns:
        the table of :func:`read_leaderboard`.
    """
    table = read_leaderboard(folders)
    parts = [_Part.create(*part, all_columns=all_columns) for part in _parts(table)]
    sources = [] if all_columns else _sources(table)
    closing = ["Sources:", *sources] if sources else []
    pages = [part.page_table() for part in parts]
    write_page(output / "leaderboard.html", "Leaderboard", NOTE, pages, closing)
    atomic_write_text(output / "leaderboard.csv", table.to_csv(index=False, float_format="%.6g"))
    atomic_write_text(output / "leaderboard.md", _markdown_page(parts, sources))
    atomic_write_text(output / "leaderboard.tex", _latex_page(parts, sources))
    return table


@dataclass(frozen=True)
class _Part:
    """A table of the leaderboard.

    Attributes:
        title: title of the table.
        note: text below the title; may be empty.
        rows: a row for each model, with the columns that are shown.
        lines: notes of the models, below the table.
    """

    title: str
    note: str
    rows: pd.DataFrame
    lines: Sequence[str]

    @classmethod
    def create(cls, title: str, note: str, rows: pd.DataFrame, *, all_columns: bool) -> _Part:
        """Select the shown columns; without the column ``note``, notes go below the table."""
        columns = list(COLUMNS) if all_columns else list(DEFAULT_COLUMNS)
        if title == NOT_COUNTED:
            columns.insert(1, "protocol")
        lines: Sequence[str] = []
        if not all_columns:
            lines = note_lines(rows[["model", "note"]].drop_duplicates())
        return cls(title, note, rows[columns], lines)

    def page_table(self) -> Table:
        """Return the table of the HTML page."""
        return Table(
            self.rows.rename(columns=HEADERS),
            self.title,
            self.note,
            formats={HEADERS[name]: form for name, form in FORMATS.items()},
            best=_cells(self.rows, self.title, 0),
            second=_cells(self.rows, self.title, 1),
            lines=self.lines,
        )


def _markdown_page(parts: Sequence[_Part], sources: Sequence[str]) -> str:
    """Return the leaderboard in Markdown."""
    blocks = ["# Leaderboard", "", NOTE, ""]
    for part in parts:
        blocks.append(f"## {part.title}\n")
        if part.note:
            blocks.append(f"{part.note}\n")
        cells = _mark(part.rows, part.title, _MARKDOWN).rename(columns=HEADERS)
        blocks.append(markdown_table(cells))
        blocks += [f"- {line}" for line in part.lines]
        blocks.append("")
    if sources:
        blocks += ["## Sources\n", *(f"- {line}" for line in sources)]
    return "\n".join(blocks).rstrip() + "\n"


def _latex_page(parts: Sequence[_Part], sources: Sequence[str]) -> str:
    """Return the leaderboard in LaTeX."""
    blocks = [f"% {NOTE}", "% It takes the package booktabs."]
    for part in parts:
        blocks.append(f"% {part.title}")
        blocks += [f"% {line}" for line in part.lines]
        blocks.append(_latex(part.rows, part.title))
    blocks += [f"% {line}" for line in sources]
    return "\n".join(blocks)


def _parts(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Return title, note and rows of each table, the rows that do not count last."""
    counted = table[table["counts"]]
    parts = []
    for name, rows in counted.groupby("protocol", sort=False):
        if name == OTHER:
            parts.append((OTHER_TITLE, OTHER_NOTE, rows))
        else:
            parts.append((f"Protocol {name}", "", rows))
    if not table["counts"].all():
        parts.append((NOT_COUNTED, NOT_COUNTED_NOTE, table[~table["counts"]]))
    return parts


def _sources(table: pd.DataFrame) -> list[str]:
    """Return the sources of all models, each once."""
    rows = table.drop_duplicates(["model", "source"]).to_dict("records")
    return [f"{row['model']}: {row['source']}." for row in rows]


def _places(rows: pd.DataFrame, title: str, rank: int) -> list[tuple[int, str]]:
    """Find the values of a rank in their data set, 0 for the best, by index and column.

    Rows that do not count, or were measured by other protocols, are not compared.
    """
    if title in (NOT_COUNTED, OTHER_TITLE):
        return []
    places = []
    for _, group in rows.groupby("dataset"):
        if len(group) < 2:
            continue
        for column in RANKED:
            # Values that are equal after rounding share their rank.
            rounded = group[column].round(_decimals(column))
            values = sorted(set(rounded.dropna()), reverse=True)
            if rank < len(values):
                places += [(index, column) for index in group.index[rounded == values[rank]]]
    return places


def _mark(rows: pd.DataFrame, title: str, marks: Marks) -> pd.DataFrame:
    """Format the cells; the best and second-best values of each data set are marked."""
    cells = texts(rows, FORMATS, absent="").set_index(rows.index)
    for rank, mark in enumerate(marks):
        for index, column in _places(rows, title, rank):
            cells.at[index, column] = mark(str(cells.at[index, column]))
    return cells


def _cells(rows: pd.DataFrame, title: str, rank: int) -> frozenset[tuple[int, int]]:
    """Find the values of a rank, by the numbers of row and column."""
    numbers = {index: number for number, index in enumerate(rows.index)}
    columns = [str(column) for column in rows.columns]
    places = _places(rows, title, rank)
    return frozenset((numbers[index], columns.index(column)) for index, column in places)


def _decimals(column: str) -> int:
    """Return the number of decimals of a column, from its format."""
    return int(FORMATS[column].strip(".f"))


_MARKDOWN: Marks = ("**{}**".format, "<u>{}</u>".format)
_LATEX: Marks = (r"\textbf{{{}}}".format, r"\underline{{{}}}".format)


def _latex(rows: pd.DataFrame, title: str) -> str:
    """Format a table for the package booktabs; empty columns are left out."""
    full = rows.dropna(axis=1, how="all").copy()
    names = [str(name) for name in full]
    for name in names:
        if name not in FORMATS:
            full[name] = full[name].map(_escape, na_action="ignore")
    cells = _mark(full, title, _LATEX)
    alignment = "".join("r" if name in FORMATS else "l" for name in names)
    with_headers = cells.rename(columns={name: _escape(HEADERS[name]) for name in names})
    return with_headers.to_latex(index=False, escape=False, column_format=alignment)


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def _escape(text: str) -> str:
    """Escape a text for LaTeX.

    >>> print(_escape("a_b & c"))
    a\\_b \\& c
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)

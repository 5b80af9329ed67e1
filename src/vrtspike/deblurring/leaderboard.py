"""Leaderboard: own runs beside published figures, a table for each protocol, in four formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from vrtspike.analysis.evaluation_files import (
    NOT_COUNTED,
    NOT_COUNTED_NOTE,
    Summary,
    find_evaluation,
    reasons_not_to_count,
)
from vrtspike.analysis.evaluations import (
    SPREAD,
    STANDARD_ERROR,
    column_name,
    protocols,
    quality_table,
    require_seeds,
)
from vrtspike.config.seeds import split_seed
from vrtspike.deblurring.costs import forward_gflop
from vrtspike.evaluation.published import OTHER, read_published_figures
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
"""Columns of the leaderboard, and their headers for people."""
FEW = ("model", "psnr", "ssim", "dataset", "inputs", "parameters", "gflops")
"""Columns that are shown by default; notes and sources then stand below the tables."""
RANKED = ("psnr", "ssim")
"""Columns whose best figures are marked; larger is better."""
FORMATS = {
    "psnr": ".2f",
    "psnr_error": ".2f",
    "psnr_spread": ".2f",
    "ssim": ".4f",
    "parameters": ",.0f",
    "gflops": ".1f",
}
NOTE = (
    "A table for each protocol (docs/metrics.md): figures of two tables do not compare, nor do "
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
"""Functions that mark the best and the second figure."""


def own_figures(folders: Sequence[Path]) -> pd.DataFrame:
    """The figures of own presets, a row per preset and protocol: means over its seeds.

    Args:
        folders: result folders of runs (``<results>/train/<preset>``), their evaluations beside.

    Returns:
        :data:`COLUMNS`, the ``protocol``, and whether the row ``counts``.
    """
    presets: dict[str, list[tuple[PublishedRun, Summary]]] = {}
    for folder in folders:
        run = read_published(folder)
        if (evaluation := find_evaluation(folder, run)) is not None:
            presets.setdefault(split_seed(run.name)[0], []).append((run, evaluation))
    rows = []
    for name, measured in presets.items():
        runs = [run for run, _ in measured]
        summaries = [summary for _, summary in measured]
        require_seeds(runs)
        rows += _rows(name, runs, summaries)
    return pd.DataFrame(rows, columns=["protocol", "counts", *COLUMNS])


def _rows(
    name: str, runs: Sequence[PublishedRun], summaries: Sequence[Summary]
) -> list[dict[str, object]]:
    """The rows of a preset, one for each protocol."""
    first, settings = summaries[0], runs[0].settings
    figures = quality_table([summaries])[0].iloc[0]
    notes = [figures.get("note")]
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
    return [
        {
            **common,
            "protocol": protocol,
            "psnr": figures.get(f"{column_name('psnr', protocol)} restored"),
            "psnr_error": figures.get(f"{column_name('psnr', protocol)} {STANDARD_ERROR}"),
            "psnr_spread": figures.get(f"{column_name('psnr', protocol)} {SPREAD}"),
            "ssim": figures.get(f"{column_name('ssim', protocol)} restored"),
        }
        for protocol in protocols(first)
    ]


def read_leaderboard(folders: Sequence[Path]) -> pd.DataFrame:
    """Own runs and published rows.

    Args:
        folders: as for :func:`own_figures`.

    Returns:
        those of a protocol and a data set together, the best PSNR first, other protocols last,
        then rows that do not count.
    """
    published = read_published_figures().assign(counts=True)
    parts = [part for part in (own_figures(folders), published) if len(part)]
    table = pd.concat(parts).reindex(columns=["protocol", "counts", *COLUMNS])
    table = table.assign(counts=table["counts"].astype(bool), other=table["protocol"] == OTHER)
    order = {"counts": False, "other": True, "protocol": True, "dataset": True, "psnr": False}
    table = table.sort_values([*order], ascending=[*order.values()], ignore_index=True)
    return table.drop(columns="other")


def write_leaderboard(
    folders: Sequence[Path], output: Path, *, all_columns: bool = False
) -> pd.DataFrame:
    """Write the leaderboard in four formats.

    Args:
        folders: as for :func:`own_figures`.
        output: folder for ``leaderboard.{csv,md,tex,html}``; the CSV file has all columns.
        all_columns: the others have them, too, not only :data:`FEW`.

    Returns:
        :func:`read_leaderboard`.
    """
    table = read_leaderboard(folders)
    shown = [*COLUMNS] if all_columns else [*FEW]
    pages, markdown = [], ["# Leaderboard", "", NOTE, ""]
    latex = [f"% {NOTE}", "% It takes the package booktabs."]
    for title, note, rows in _parts(table):
        few = rows[["model", "protocol", *shown[1:]] if title == NOT_COUNTED else shown]
        heads = {"protocol": "protocol", **COLUMNS}
        noted = rows[["model", "note"]].drop_duplicates()
        below = [] if all_columns else note_lines(noted)
        text = " ".join(filter(None, [note, *below]))
        formats = {heads[name]: form for name, form in FORMATS.items()}
        pages.append(
            Table(
                few.rename(columns=heads),
                title,
                text,
                formats=formats,
                best=_cells(few, title, 0),
                second=_cells(few, title, 1),
            )
        )
        markdown.append(f"## {title}\n\n{note}\n" if note else f"## {title}\n")
        markdown.append(markdown_table(_marked(few, title, _MARKDOWN).rename(columns=heads)))
        markdown += [f"- {line}" for line in below]
        markdown.append("")
        latex += [f"% {title}", *(f"% {line}" for line in below), _latex(few, title, heads)]
    sources = [] if all_columns else _sources(table)
    markdown += ["## Sources\n", *(f"- {line}" for line in sources)] if sources else []
    latex += [f"% {line}" for line in sources]
    closing = [f"Sources: {' '.join(sources)}"] if sources else []
    write_page(output / "leaderboard.html", "Leaderboard", NOTE, pages, closing)
    atomic_write_text(output / "leaderboard.csv", table.to_csv(index=False, float_format="%.6g"))
    atomic_write_text(output / "leaderboard.md", "\n".join(markdown).rstrip() + "\n")
    atomic_write_text(output / "leaderboard.tex", "\n".join(latex))
    return table


def _parts(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Title, note and rows of each table, the rows that do not count last."""
    counted = table[table["counts"]]
    parts = [
        (OTHER_TITLE, OTHER_NOTE, rows) if name == OTHER else (f"Protocol {name}", "", rows)
        for name, rows in counted.groupby("protocol", sort=False)
    ]
    if not table["counts"].all():
        parts.append((NOT_COUNTED, NOT_COUNTED_NOTE, table[~table["counts"]]))
    return parts


def _sources(table: pd.DataFrame) -> list[str]:
    """The sources of all models, each once."""
    rows = table.drop_duplicates(["model", "source"]).to_dict("records")
    return [f"{row['model']}: {row['source']}." for row in rows]


def _places(rows: pd.DataFrame, title: str, rank: int) -> list[tuple[int, str]]:
    """Index and column of the figures of a rank in their data set, 0 for the best.

    Rows that do not count, or were measured by other protocols, are not compared.
    """
    if title in (NOT_COUNTED, OTHER_TITLE):
        return []
    places = []
    for _, group in rows.groupby("dataset"):
        if len(group) < 2:
            continue
        for column in RANKED:
            # Figures that look alike share their place.
            shown = group[column].round(_decimals(column))
            values = sorted(set(shown.dropna()), reverse=True)
            if rank < len(values):
                places += [(index, column) for index in group.index[shown == values[rank]]]
    return places


def _marked(rows: pd.DataFrame, title: str, marks: Marks) -> pd.DataFrame:
    """The cells as texts; of each data set the best and the second figure are marked."""
    cells = texts(rows, FORMATS, absent="").set_index(rows.index)
    for rank, mark in enumerate(marks):
        for index, column in _places(rows, title, rank):
            cells.at[index, column] = mark(str(cells.at[index, column]))
    return cells


def _cells(rows: pd.DataFrame, title: str, rank: int) -> frozenset[tuple[int, int]]:
    """The figures of a rank as numbers of row and column."""
    numbers = {index: number for number, index in enumerate(rows.index)}
    columns = [str(column) for column in rows.columns]
    places = _places(rows, title, rank)
    return frozenset((numbers[index], columns.index(column)) for index, column in places)


def _decimals(column: str) -> int:
    return int(FORMATS[column].strip(".f"))


_MARKDOWN: Marks = ("**{}**".format, "<u>{}</u>".format)
_LATEX: Marks = (r"\textbf{{{}}}".format, r"\underline{{{}}}".format)


def _latex(rows: pd.DataFrame, title: str, heads: Mapping[str, str]) -> str:
    """A table with the rules of the package booktabs; empty columns are left out."""
    full = rows.dropna(axis=1, how="all").copy()
    names = [str(name) for name in full]
    for name in names:
        if name not in FORMATS:
            full[name] = full[name].map(_escape, na_action="ignore")
    cells = _marked(full, title, _LATEX)
    alignment = "".join("r" if name in FORMATS else "l" for name in names)
    named = cells.rename(columns={name: _escape(heads[name]) for name in names})
    return named.to_latex(index=False, escape=False, column_format=alignment)


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def _escape(text: str) -> str:
    """A text as LaTeX shows it.

    >>> print(_escape("a_b & c"))
    a\\_b \\& c
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)

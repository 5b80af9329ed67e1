"""Leaderboard: own runs and published results, a table for each protocol, in four formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from vrtspike.analysis.comparisons.quality_tables import (
    SPREAD,
    STANDARD_ERROR,
    EvaluatedRun,
    column_name,
    find_evaluated,
    protocols,
    quality_table,
    require_seeds,
)
from vrtspike.analysis.evaluation_files import NOT_COUNTED, NOT_COUNTED_NOTE, reasons_not_to_count
from vrtspike.config.seed_names import split_seed
from vrtspike.deblurring.training_cost import forward_gflop
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.evaluation.paper_results import OTHER, read_paper_results
from vrtspike.io.files import atomic_write_text
from vrtspike.plotting.markdown_tables import markdown_table
from vrtspike.plotting.pages import Table, note_lines, table_texts, write_page

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
    "those of two data sets. Empty cells: unknown, or not measured. "
    "GFLOP: forward pass for a frame of 256 x 256 pixels, two for each multiplication with its "
    "addition, matrix products and convolutions alone."
)
OTHER_TITLE = "Other protocols"
OTHER_NOTE = (
    "None of this project's protocols is how these were measured; the notes say what is known. "
    "They compare with nothing here, nor with one another."
)


def own_results(folders: Sequence[Path]) -> pd.DataFrame:
    """Read the results of own presets, a row per preset and protocol: means over its seeds.

    Args:
        folders: result folders of runs (``<results>/train/<preset>``), with
            ``<results>/evaluate/<preset>``.

    Returns:
        :data:`COLUMNS`, ``protocol``, and ``counts``: False for results that are not a test.
    """
    presets: dict[str, list[EvaluatedRun]] = {}
    for folder in folders:
        member = find_evaluated(folder)
        if member is not None:
            preset, _ = split_seed(member.run.name)
            presets.setdefault(preset, []).append(member)
    rows = []
    for name, seeds in presets.items():
        require_seeds([member.run for member in seeds])
        rows += _rows(name, seeds)
    return pd.DataFrame(rows, columns=["protocol", "counts", *COLUMNS])


def _rows(name: str, seeds: Sequence[EvaluatedRun]) -> list[dict[str, object]]:
    """Return the rows of a preset, one for each protocol: means over its seeds."""
    summaries = [member.summary for member in seeds]
    first = summaries[0]
    settings = seeds[0].run.settings
    table, _ = quality_table([summaries])
    means = table.iloc[0]
    notes = [means.get("note")]
    if len(seeds) > 1:
        notes.append(f"mean of {len(seeds)} seeds")
    gflops = None
    has_spikes = False
    if isinstance(settings, DeblurringSettings):
        gflops = forward_gflop(name, settings)
        has_spikes = settings.MODEL.USE_SPIKE
    common = {
        "counts": not any(reasons_not_to_count(summary) for summary in summaries),
        "model": name,
        "dataset": f"{first['dataset']}, {first['split']}",
        "inputs": "RGB and spikes" if has_spikes else "RGB",
        "parameters": seeds[0].run.parameters,
        "gflops": gflops,
        "source": f"this project, run {', '.join(member.run.fingerprint for member in seeds)}",
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
        all_columns: if true, show all columns in the other files as well, not only
            :data:`DEFAULT_COLUMNS`.

    Returns:
        the table of :func:`read_leaderboard`.
    """
    table = read_leaderboard(folders)
    parts = _parts(table, all_columns=all_columns)
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
        ranks: ranks of the values in :data:`RANKED` columns, 1 for the best; NaN for none.
        lines: notes of the models, below the table.
    """

    title: str
    note: str
    rows: pd.DataFrame
    ranks: pd.DataFrame
    lines: Sequence[str]

    def page_table(self) -> Table:
        """Return the table of the HTML page."""
        return Table(
            self.rows.rename(columns=HEADERS),
            self.title,
            self.note,
            formats={HEADERS[name]: form for name, form in FORMATS.items()},
            best=self._cells(1),
            second=self._cells(2),
            lines=self.lines,
        )

    def _cells(self, rank: int) -> frozenset[tuple[int, int]]:
        """Return the cells of a rank, by the numbers of row and column."""
        columns = [str(name) for name in self.rows]
        return frozenset(
            (row, columns.index(name))
            for name in RANKED
            for row in np.flatnonzero(self.ranks[name] == rank).tolist()
        )

    def marked(self, best: str, second: str) -> pd.DataFrame:
        """Return the cells as texts, those of the first two ranks within templates."""
        cells = table_texts(self.rows, FORMATS, absent="").set_index(self.rows.index)
        for rank, template in enumerate((best, second), start=1):
            for name in RANKED:
                is_ranked = self.ranks[name] == rank
                cells.loc[is_ranked, name] = cells.loc[is_ranked, name].map(template.format)
        return cells


def _parts(table: pd.DataFrame, *, all_columns: bool) -> list[_Part]:
    """Return the table of each protocol, and that of the rows that do not count last."""
    columns = list(COLUMNS if all_columns else DEFAULT_COLUMNS)
    parts = []
    for protocol, rows in table[table["counts"]].groupby("protocol", sort=False):
        lines = _notes(rows, all_columns)
        if protocol == OTHER:
            part = _Part(OTHER_TITLE, OTHER_NOTE, rows[columns], _no_ranks(rows), lines)
        else:
            part = _Part(f"Protocol {protocol}", "", rows[columns], _ranks(rows), lines)
        parts.append(part)
    rows = table[~table["counts"]]
    if len(rows):
        columns.insert(1, "protocol")
        lines = _notes(rows, all_columns)
        parts.append(_Part(NOT_COUNTED, NOT_COUNTED_NOTE, rows[columns], _no_ranks(rows), lines))
    return parts


def _notes(rows: pd.DataFrame, all_columns: bool) -> list[str]:
    """Return the lines below a table: the notes, unless it has a column for them."""
    if all_columns:
        return []
    return note_lines(rows[["model", "note"]].drop_duplicates())


def _ranks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ranks of values in their data set, if it has several rows.

    Values that are equal after rounding share their rank.
    """
    decimals = {name: int(FORMATS[name].strip(".f")) for name in RANKED}
    datasets = rows["dataset"]
    rounded = rows[list(RANKED)].astype(float).round(decimals)
    ranks = rounded.groupby(datasets).rank("dense", ascending=False)
    return ranks.where(datasets.duplicated(keep=False))


def _no_ranks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return NaN as the rank of every row, for rows that are not compared."""
    return pd.DataFrame(np.nan, index=rows.index, columns=list(RANKED))


def _markdown_page(parts: Sequence[_Part], sources: Sequence[str]) -> str:
    """Return the leaderboard in Markdown."""
    blocks = ["# Leaderboard", "", NOTE, ""]
    for part in parts:
        blocks.append(f"## {part.title}\n")
        if part.note:
            blocks.append(f"{part.note}\n")
        cells = part.marked("**{}**", "<u>{}</u>").rename(columns=HEADERS)
        blocks.append(markdown_table(cells))
        blocks += [f"- {line}" for line in part.lines]
        blocks.append("")
    if sources:
        blocks += ["## Sources\n", *(f"- {line}" for line in sources)]
    return "\n".join(blocks).rstrip() + "\n"


def _latex_page(parts: Sequence[_Part], sources: Sequence[str]) -> str:
    """Return the leaderboard in LaTeX; empty columns are left out."""
    blocks = [f"% {NOTE}", "% It takes the package booktabs."]
    for part in parts:
        blocks.append(f"% {part.title}")
        blocks += [f"% {line}" for line in part.lines]
        names = [str(name) for name in part.rows.dropna(axis=1, how="all")]
        cells = part.marked(r"\textbf{{{}}}", r"\underline{{{}}}")[names]
        for name in names:
            if name not in FORMATS:
                cells[name] = cells[name].map(_escape)
        blocks.append(
            cells.rename(columns={name: _escape(HEADERS[name]) for name in names}).to_latex(
                index=False,
                escape=False,
                column_format="".join("r" if name in FORMATS else "l" for name in names),
            )
        )
    blocks += [f"% {line}" for line in sources]
    return "\n".join(blocks)


def _sources(table: pd.DataFrame) -> list[str]:
    """Return the sources of all models, each once."""
    rows = table.drop_duplicates(["model", "source"]).to_dict("records")
    return [f"{row['model']}: {row['source']}." for row in rows]


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

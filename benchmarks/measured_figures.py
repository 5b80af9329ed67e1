"""Where measured figures go: tables of values, and parts of pages that are written from them."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from vrtspike.system import cli


def experiment_options(about: str | None) -> argparse.ArgumentParser:
    """The options of experiments on the demo's data, whose figures a page shows."""
    parser = argparse.ArgumentParser(description=about, formatter_class=cli.HelpFormatter)
    default = Path("results/data/demo/k32/dataset.json")
    parser.add_argument("--dataset", type=Path, default=default, help="the demo's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is outdated")
    return parser


def write_figures(rows: Iterable[tuple[str, float, str]], folder: Path | None, name: str) -> None:
    """Write names, values and units to ``<folder>/<name>.csv``; nothing without a folder."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["figure", "value", "unit"])
        table.writerows((title, f"{value:.4g}", unit) for title, value, unit in rows)


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def with_part(page: Path, program: str, text: str) -> str:
    """A page with ``text`` between the comments that say where a program's part of it is."""
    begin, end = (f"<!-- {program}: {word} -->" for word in ("begin", "end"))
    before, rest = page.read_text(encoding="utf-8").split(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


def require_current(page: Path, text: str, program: str) -> None:
    """End with status 1 if a page is not what its figures make of it.

    Args:
        page: the file.
        text: what it should hold.
        program: under ``benchmarks/``, that writes it.
    """
    if page.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{page} is outdated; run: python benchmarks/{program}")

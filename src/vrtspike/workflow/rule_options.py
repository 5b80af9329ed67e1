"""Texts in rules: constraints of wildcards, options of programs, labels of the report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import flat_settings


def one_of(names: Iterable[str]) -> str:
    """Return a wildcard constraint that matches these names, and nothing if there are none.

    >>> one_of(["demo", "low.ram"]), one_of([])
    ('demo|low\\\\.ram', '(?!)')
    """
    return "|".join(re.escape(name) for name in names) or "(?!)"


def evaluation_overrides(settings: RunSettings) -> str:
    """Return options with the current TEST settings; the values of the training may differ."""
    lines = flat_settings({"TEST": settings.TEST.model_dump(mode="json")})
    pairs = [f"{key}={value}" for key, value in lines.items()]
    if not pairs:
        return ""
    return shlex.join(["--set", *pairs])


def report_item(file: str, caption: str | None = None, **labels: str) -> dict[str, Any]:
    """Return arguments of Snakemake's ``report`` for a file, labelled by wildcards and name.

    Args:
        file: path below the results, with wildcards.
        caption: name of the text in ``workflow/report``; None for the name of the file.
        labels: further or replaced labels.

    >>> report_item("seeds/{preset}/best_run.html", "seeds", preset="all")
    {'caption': '../workflow/report/seeds.rst', 'labels': {'preset': 'all', 'result': 'best run'}}
    >>> report_item("performance/{preset}/loss.svg")["labels"]
    {'preset': '{preset}', 'result': 'loss'}
    """
    name = Path(file).stem
    wildcards = {wildcard: f"{{{wildcard}}}" for wildcard in re.findall(r"{(\w+)}", file)}
    return {
        "caption": f"../workflow/report/{caption or name}.rst",
        "labels": {**wildcards, "result": name.replace("_", " "), **labels},
    }

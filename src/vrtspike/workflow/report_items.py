"""Labels and captions of the files in Snakemake's report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


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

"""Demos: their presets, their benchmark files, and the model that they show how to use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DEMOS = {"demo": ["demo", "light_demo", "general_demo"], "sst_demo": ["sst_demo"]}
"""Presets of each demo. Of ``demo``, the last one is not trained: the bundled weights."""

_REUSED = {"demo": "light_demo"}
"""Preset whose run a demo shows how to use."""


def reuse_options(results: Path, demo: str) -> list[str]:
    """Return options that name the run which a demo shows how to use, if it shows one.

    >>> reuse_options(Path("results"), "demo"), reuse_options(Path("results"), "sst_demo")
    (['--run', 'results/train/light_demo'], [])
    """
    if demo not in _REUSED:
        return []
    return ["--run", str(results / "train" / _REUSED[demo])]


def benchmark_files(folder: Path, presets: Sequence[str]) -> list[str]:
    """Return the benchmark files of the jobs of presets, sorted.

    The file of the rule that is named like the first preset, such as ``demo.tsv``, is left out: it
    belongs to the job that calls this function.

    Args:
        folder: folder of all benchmark files: ``<rule>/<preset>.tsv``, ``<rule>/<data set>/*.tsv``.
        presets: names of presets and of the data sets named like them.
    """
    paths: set[Path] = set()
    for preset in presets:
        for pattern in (f"{preset}*.tsv", f"*/{preset}.tsv", f"*/{preset}/*.tsv"):
            paths |= set(folder.glob(pattern))
    paths.discard(folder / f"{presets[0]}.tsv")
    return sorted(map(str, paths))

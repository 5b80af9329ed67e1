"""Benchmark files of Snakemake that belong to some presets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


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

"""Input functions of rules on several presets.

Presets are names, or a function that returns names from the wildcards of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from snakemake.io import ancient, expand

Presets: TypeAlias = Sequence[str] | Callable[[Any], Sequence[str]]

InputFunction: TypeAlias = Callable[[Any], list[str]]
"""Function that returns the files of a job from its wildcards."""


def preset_names(presets: Presets, wildcards: Any) -> Sequence[str]:  # noqa: ANN401 - Snakemake's
    """Return the names of presets for the wildcards of a job."""
    return presets(wildcards) if callable(presets) else presets


def files_of(pattern: str, presets: Presets, **values: Sequence[str]) -> InputFunction:
    """Return an input function with a file of each preset.

    Args:
        pattern: path of the files, with the wildcard ``preset``.
        presets: their names, or a function that returns these.
        values: values of further wildcards; there is a file for each combination.
    """

    def files(wildcards: Any) -> list[str]:  # noqa: ANN401 - Snakemake's
        names = preset_names(presets, wildcards)
        return list(expand(pattern, preset=names, **values))

    return files


def after_datasets(manifest: Callable[[str], str], presets: Presets) -> InputFunction:
    """Return an input function with the data sets of presets, only for the order.

    After a checkpoint, Snakemake evaluates again only the jobs that depend on it directly. Without
    this input, jobs behind a training would stay due after an unchanged data set.

    Args:
        manifest: function that returns the manifest of the data set of a preset.
        presets: their names, or a function that returns these.
    """

    def datasets(wildcards: Any) -> list[str]:  # noqa: ANN401 - Snakemake's
        paths = dict.fromkeys(manifest(name) for name in preset_names(presets, wildcards))
        return [ancient(path) for path in paths]

    return datasets


def run_inputs(manifest: Callable[[str], str], presets: Presets) -> dict[str, InputFunction]:
    """Return the runs of presets as inputs by name, see :func:`after_datasets`."""
    return {
        "datasets": after_datasets(manifest, presets),
        "runs": files_of("<results>/train/{preset}/run.json", presets),
    }


def evaluation_inputs(manifest: Callable[[str], str], presets: Presets) -> dict[str, InputFunction]:
    """Return the runs and evaluations of presets as inputs by name, see :func:`after_datasets`."""
    return {
        **run_inputs(manifest, presets),
        "evaluations": files_of("<results>/evaluate/{preset}/summary.json", presets),
    }

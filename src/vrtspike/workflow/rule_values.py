"""Values of rules: constraints of wildcards, options of programs, labels, files of presets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from snakemake.io import ancient, expand

from vrtspike.config.run_schema import RunSettings
from vrtspike.io.flatten import flat_settings
from vrtspike.staleness.params import Wildcards
from vrtspike.system.home import SNAKEFILE

DEMOS = {"demo": ["demo", "light_demo", "general_demo"], "sst_demo": ["sst_demo"]}
"""Presets of each demo. Of ``demo``, the last one is not trained: the bundled weights."""

_REUSED = {"demo": "light_demo"}
"""Preset whose run a demo shows how to use."""

Presets: TypeAlias = Sequence[str] | Callable[[Wildcards], Sequence[str]]
"""Names of presets, or a function that returns them from the wildcards of a job."""

InputFunction: TypeAlias = Callable[[Wildcards], list[str]]
"""Function that returns the files of a job from its wildcards."""


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


def nested_call(snakefile: str, configfiles: Sequence[str], config_arguments: Sequence[str]) -> str:
    """Return the options of a Snakemake within a rule, for the same workflow and configuration.

    Args:
        snakefile: path of the main Snakefile.
        configfiles: files of ``--configfile``.
        config_arguments: values of ``--config``, as typed.

    >>> nested_call("my flow", ["a.yaml"], ["GPUS=0"])
    "--cores 1 --nolock --snakefile 'my flow' --configfile a.yaml --config GPUS=0"
    """
    options = ["--cores", "1", "--nolock"]
    if Path(snakefile) != Path.cwd() / SNAKEFILE:
        options += ["--snakefile", snakefile]
    if configfiles:
        options += ["--configfile", *configfiles]
    if config_arguments:
        options += ["--config", *config_arguments]
    return shlex.join(options)


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


def preset_names(presets: Presets, wildcards: Wildcards) -> Sequence[str]:
    """Return the names of presets for the wildcards of a job."""
    return presets(wildcards) if callable(presets) else presets


def files_of(pattern: str, presets: Presets, **values: Sequence[str]) -> InputFunction:
    """Return an input function with a file of each preset.

    Args:
        pattern: path of the files, with the wildcard ``preset``.
        presets: their names, or a function that returns these.
        values: values of further wildcards; there is a file for each combination.
    """

    def files(wildcards: Wildcards) -> list[str]:
        names = preset_names(presets, wildcards)
        return list(expand(pattern, preset=names, **values))

    return files


class PresetInputs:
    """Inputs of rules on the results of presets, which wait for the data sets of these.

    Args:
        manifest_of: function that returns the manifest of the data set of a preset.
    """

    def __init__(self, manifest_of: Callable[[str], str]) -> None:
        self._manifest_of = manifest_of

    def datasets(self, presets: Presets) -> InputFunction:
        """Return an input function with the data sets of presets, only for the order.

        After a checkpoint, Snakemake evaluates again only the jobs that depend on it directly.
        Without this input, jobs behind a training would stay due after an unchanged data set.
        """

        def datasets(wildcards: Wildcards) -> list[str]:
            names = preset_names(presets, wildcards)
            paths = dict.fromkeys(self._manifest_of(name) for name in names)
            return [ancient(path) for path in paths]

        return datasets

    def runs(self, presets: Presets) -> dict[str, InputFunction]:
        """Return the data sets and runs of presets as inputs by name."""
        return {
            "datasets": self.datasets(presets),
            "runs": files_of("<results>/train/{preset}/run.json", presets),
        }

    def evaluations(self, presets: Presets) -> dict[str, InputFunction]:
        """Return the data sets, runs and evaluations of presets as inputs by name."""
        return {
            **self.runs(presets),
            "evaluations": files_of("<results>/evaluate/{preset}/summary.json", presets),
        }

"""Training of a preset in one call, by the workflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vrtspike.analysis.run_logs import validation_of_weights
from vrtspike.api.overrides import override_words
from vrtspike.config.workflow_loading import load_project_config, load_workflow_config
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.published import PublishedRun, read_finished
from vrtspike.system.home import CONFIG
from vrtspike.workflow.snakemake_call import run_snakemake

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, repr=False)
class TrainingResult:
    """A published run.

    Attributes:
        folder: its result folder, ``<results>/train/<preset>``.
        run: name, fingerprint, settings, parameters and steps.
        metrics: metrics of the last validation, with TRAIN.EARLY_STOPPING of the best one, such as
            ``psnr`` in dB; empty without one.
    """

    folder: Path
    run: PublishedRun
    metrics: Mapping[str, float]

    def __repr__(self) -> str:
        """Return place, size and metrics in two lines."""
        size = "" if self.run.parameters is None else f", {self.run.parameters / 1e6:.2f} M weights"
        validation = "last" if self.run.settings.TRAIN.EARLY_STOPPING is None else "best"
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return (
            f"{self.folder}: {self.run.name} ({self.run.fingerprint}), {self.run.steps} steps"
            f"{size}\n{validation} validation: {metrics or 'none'}"
        )

    def load(
        self, *, device: str | torch.device | None = None, precision: str = "auto"
    ) -> TrainedModel:
        """Load the model.

        Args:
            device: as for :func:`vrtspike.load`.
            precision: as for :func:`vrtspike.load`.

        Raises:
            ConfigError: if it does not restore frames, such as a model of sea surface temperatures.
            RunError: as for :func:`vrtspike.load`.
        """
        return load(self.folder, device=device, precision=precision)


def train(
    preset: str,
    overrides: Mapping[str, Any] | None = None,
    *,
    cores: int | Literal["all"] = "all",
) -> TrainingResult:
    """Train a preset of the project in the working directory, as ``snakemake train_<preset>``.

    Snakemake makes the data that are missing or stale, trains or continues the run, and publishes
    it: there is no other way to a result. If nothing is stale the call returns at once. Printed
    are the lines of the terminal; the steps are a progress bar. After an interruption the same
    call continues the run.

    Keys are given in a mapping by their dotted names, because these are the names in presets' pages
    and messages, and in ``SET`` of the configuration; keyword arguments cannot contain dots.

    Args:
        preset: name of a preset, of an ablation's variant, a sweep's member or a further seed;
            of a preset with several seeds the first is trained.
        overrides: values of keys of the preset, such as ``{"TRAIN.MAX_STEPS": 10}``, beside those
            of SET in ``config/config.yaml``. A run of other values has another fingerprint; it
            replaces the published result of the preset, as on the command line.
        cores: processor cores to use.

    Raises:
        ConfigError: if there is no such preset or key, or a value is not allowed.
        RunError: if the working directory is not a project, Snakemake is not installed, or a job
            failed; its messages are printed.

    Examples::

        result = vrtspike.train("demo")
        result = vrtspike.train("demo", {"TRAIN.MAX_STEPS": 10, "TRAIN.OPTIM.LR": 1e-4})
        model = result.load()
    """
    workflow = load_project_config([], [])
    words: list[str] = []
    if overrides:
        pieces = workflow.settings.set_pieces_with(override_words(overrides))
        workflow = load_workflow_config([CONFIG], {"SET": pieces})
        words = ["--config", f"SET={json.dumps(pieces, ensure_ascii=False)}"]
    workflow.settings_of(preset)  # before Snakemake starts
    folder = Path(workflow.settings.RESULTS) / "train" / preset
    run_snakemake(
        [str(folder / WEIGHTS), "--cores", str(cores), *words],
        f"train {preset}",
        f"vrtspike.train({preset!r}{f', {overrides!r}' if overrides else ''})",
    )
    run = read_finished(folder)
    return TrainingResult(folder, run, validation_of_weights(folder, run.settings))

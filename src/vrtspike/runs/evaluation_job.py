"""An evaluation of a run, as programs pass it to the run's task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.runs.published import PublishedRun
from vrtspike.system.progress_bar import ProgressCallback

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class EvaluationJob:
    """An evaluation to run.

    Attributes:
        weights: ``weights.safetensors`` of a run.
        run: the run, with the settings of its evaluation.
        manifest_path: manifest of the data.
        output: folder for the results.
        device: device of the computation.
        progress: function called with the number of finished frames or samples, and their total.
    """

    weights: Path
    run: PublishedRun
    manifest_path: Path
    output: Path
    device: torch.device
    progress: ProgressCallback = lambda done, total: None

"""VRT-Spike: video deblurring with spike cameras, from raw files to a report.

The names listed here are for programs and notebooks (``docs/api.md``), and imported when they are
used. Everything else is internal.
"""

from __future__ import annotations

import os
from importlib import import_module

# As of `typing`: until ``__main__`` has begun, Ctrl-C ends in a traceback, so little is imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    # `as` makes a name public for type checkers.
    from vrtspike.analysis.run_logs import read_run_logs as read_run_logs
    from vrtspike.config import load_preset as load_preset
    from vrtspike.data.clips.dataset_manifest import load_dataset as load_dataset
    from vrtspike.data.exposure import Exposure as Exposure
    from vrtspike.data.exposure import read_exposures as read_exposures
    from vrtspike.data.gate.alignment import align as align
    from vrtspike.data.raw.spikes import read_spikes as read_spikes
    from vrtspike.data.raw.spikes import write_spikes as write_spikes
    from vrtspike.data.simulation.sensor import simulate_spikes as simulate_spikes
    from vrtspike.data.simulation.sensor import synthesize_blur as synthesize_blur
    from vrtspike.data.store.reading import Store as Store
    from vrtspike.data.video import inspect_video as inspect_video
    from vrtspike.data.video import read_video as read_video
    from vrtspike.data.video import video_file as video_file
    from vrtspike.data.voxels.bins import bin_edges as bin_edges
    from vrtspike.data.voxels.counting import voxelize as voxelize
    from vrtspike.data.voxels.normalization import normalize_counts as normalize_counts
    from vrtspike.interface.checking import DataCheck as DataCheck
    from vrtspike.interface.checking import check_data as check_data
    from vrtspike.interface.evaluating import Evaluation as Evaluation
    from vrtspike.interface.evaluating import evaluate as evaluate
    from vrtspike.interface.restoring import restore as restore
    from vrtspike.interface.training import TrainingResult as TrainingResult
    from vrtspike.interface.training import train as train
    from vrtspike.launching.signals import leave as leave
    from vrtspike.metrics.psnr import psnr as psnr
    from vrtspike.metrics.psnr import psnr_y as psnr_y
    from vrtspike.metrics.ssim import ssim as ssim
    from vrtspike.metrics.ssim import ssim_y as ssim_y
    from vrtspike.models import build_model as build_model
    from vrtspike.models.vrt_checkpoints import load_vrt as load_vrt
    from vrtspike.monitoring.timing import section as section
    from vrtspike.restoration.folder.restored_folder import RestoredFolder as RestoredFolder
    from vrtspike.restoration.inputs.clip_frames import read_frames as read_frames
    from vrtspike.restoration.inputs.input_clip import open_clip as open_clip
    from vrtspike.restoration.loading import load as load
    from vrtspike.restoration.trained_model import TrainedModel as TrainedModel
    from vrtspike.runs.published import read_published as read_published
    from vrtspike.training.fit import fit as fit
    from vrtspike.training.objectives import Objective as Objective

__version__ = "0.1.0"

_HOMES = {
    "DataCheck": "vrtspike.interface.checking",
    "Evaluation": "vrtspike.interface.evaluating",
    "Exposure": "vrtspike.data.exposure",
    "Objective": "vrtspike.training.objectives",
    "RestoredFolder": "vrtspike.restoration.folder.restored_folder",
    "Store": "vrtspike.data.store.reading",
    "TrainedModel": "vrtspike.restoration.trained_model",
    "TrainingResult": "vrtspike.interface.training",
    "align": "vrtspike.data.gate.alignment",
    "bin_edges": "vrtspike.data.voxels.bins",
    "build_model": "vrtspike.models",
    "check_data": "vrtspike.interface.checking",
    "evaluate": "vrtspike.interface.evaluating",
    "fit": "vrtspike.training.fit",
    "inspect_video": "vrtspike.data.video",
    "leave": "vrtspike.launching.signals",
    "load": "vrtspike.restoration.loading",
    "load_dataset": "vrtspike.data.clips.dataset_manifest",
    "load_preset": "vrtspike.config",
    "load_vrt": "vrtspike.models.vrt_checkpoints",
    "normalize_counts": "vrtspike.data.voxels.normalization",
    "open_clip": "vrtspike.restoration.inputs.input_clip",
    "psnr": "vrtspike.metrics.psnr",
    "psnr_y": "vrtspike.metrics.psnr",
    "read_exposures": "vrtspike.data.exposure",
    "read_frames": "vrtspike.restoration.inputs.clip_frames",
    "read_published": "vrtspike.runs.published",
    "read_run_logs": "vrtspike.analysis.run_logs",
    "read_spikes": "vrtspike.data.raw.spikes",
    "read_video": "vrtspike.data.video",
    "restore": "vrtspike.interface.restoring",
    "section": "vrtspike.monitoring.timing",
    "simulate_spikes": "vrtspike.data.simulation.sensor",
    "ssim": "vrtspike.metrics.ssim",
    "ssim_y": "vrtspike.metrics.ssim",
    "synthesize_blur": "vrtspike.data.simulation.sensor",
    "train": "vrtspike.interface.training",
    "video_file": "vrtspike.data.video",
    "voxelize": "vrtspike.data.voxels.counting",
    "write_spikes": "vrtspike.data.raw.spikes",
}
"""Modules of the public names, the same as in the imports above, which type checkers read."""

__all__ = list(_HOMES)

# Threads that wait for others sleep instead of spin, unless the user chose otherwise: on busy cores
# a CPU training step took 4 to 7 times as long. PyTorch's own OpenMP spins for some microseconds
# first, which makes the short operations of a quiet machine up to a third faster. It looks at these
# variables once, when PyTorch is imported; every program imports this module before.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vrtspike' has no attribute {name!r}")
    attribute: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    """The module's own names and those that are imported when they are used."""
    return sorted({*globals(), *__all__})

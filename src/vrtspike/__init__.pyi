"""Public names for type checkers and :mod:`vrtspike.lazy_names`; ``as`` makes a name public."""

from vrtspike.analysis.run_logs import read_run_logs as read_run_logs
from vrtspike.api.checking import DataCheck as DataCheck
from vrtspike.api.checking import check_data as check_data
from vrtspike.api.evaluating import Evaluation as Evaluation
from vrtspike.api.evaluating import evaluate as evaluate
from vrtspike.api.restoring import restore as restore
from vrtspike.api.training import TrainingResult as TrainingResult
from vrtspike.api.training import train as train
from vrtspike.config import load_preset as load_preset
from vrtspike.data.checks.alignment import align as align
from vrtspike.data.clips.dataset_manifest import load_dataset as load_dataset
from vrtspike.data.exposure import Exposure as Exposure
from vrtspike.data.exposure import read_exposures as read_exposures
from vrtspike.data.raw.spikes import read_spikes as read_spikes
from vrtspike.data.raw.spikes import write_spikes as write_spikes
from vrtspike.data.simulation.sensor import simulate_spikes as simulate_spikes
from vrtspike.data.simulation.sensor import synthesize_blur as synthesize_blur
from vrtspike.data.store.reading import Store as Store
from vrtspike.data.video import inspect_video as inspect_video
from vrtspike.data.video import read_video as read_video
from vrtspike.data.video import video_writer as video_writer
from vrtspike.data.voxels.bins import bin_edges as bin_edges
from vrtspike.data.voxels.counting import voxelize as voxelize
from vrtspike.data.voxels.normalization import normalize_counts as normalize_counts
from vrtspike.launching.signals import exit_process as exit_process
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

__version__: str

"""A trained model that is ready to restore: the result of :func:`vrtspike.load`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.clips.run_statistics import read_run_statistics
from vrtspike.data.exposure import Exposure
from vrtspike.io.files import file_digest
from vrtspike.restoration.checks.clip_check import doubts_message
from vrtspike.restoration.checks.outside_training import kept_frames_warning
from vrtspike.restoration.folder.request import Request, open_request
from vrtspike.restoration.folder.writing import restore_into
from vrtspike.restoration.inference.onnx_file import read_onnx
from vrtspike.restoration.inference.precision import choose_device, choose_precision
from vrtspike.restoration.inputs.clip_frames import GivenFrames
from vrtspike.restoration.inputs.given_clip import GivenSpikes, open_clip
from vrtspike.restoration.loaded_model import LoadedModel
from vrtspike.restoration.restore import load_model, torch_restorer
from vrtspike.restoration.restored_folder import RestoredFolder
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import GENERAL, find_trained
from vrtspike.runs.published import read_finished
from vrtspike.settings import deblurring_settings
from vrtspike.system.errors import ConfigError
from vrtspike.system.progress_bar import ProgressCallback, Progresses, progress_bar


class TrainedModel(LoadedModel):
    """A trained model, with the preparation of its inputs and the calls of users.

    Attributes:
        run: its identity: name, fingerprint, settings.
        weights: SHA-256 of its file of weights.
        device: the device that computes.
        precision: ``float32``, or the half type of its matrix products.
        restore_tiles: function that restores a batch of tiles.
        network: called as ``network(blur, voxels)``; None for an ONNX file.
        statistics: mean and deviation that its spikes are standardised with; None for a model
            without spikes and for an ONNX file, which holds them itself.
        ratio: pixels of a frame for each spike pixel along each side; None if it takes any.
        limits: ranges of the recordings that it was trained on; None if these were not stored.
    """

    def __repr__(self) -> str:
        """Return its run, size and device, and the inputs it takes, in two lines."""
        size = "ONNX file"
        if self.network is not None:
            parameters = sum(parameter.numel() for parameter in self.network.parameters())
            size = f"{parameters / 1e6:.2f} M weights"
        inputs = "blurry frames alone"
        if self.settings.MODEL.USE_SPIKE:
            bins = self.settings.DATA.NUM_VOXEL_BINS
            inputs = f"blurry frames and spikes, in {bins} bins per frame"
        if self.ratio is not None:
            inputs += f"; frames are {self.ratio} times as large as the sensor"
        return (
            f"{self.run.name} ({self.run.fingerprint}), {size}, {self.precision} on {self.device}\n"
            f"takes {inputs}"
        )

    def restore(
        self,
        frames: GivenFrames,
        spikes: GivenSpikes | None = None,
        *,
        exposures: Sequence[Exposure] | None = None,
        simulate_spikes: bool = False,
        sensor: tuple[int, int] | None = None,
        layout: str | None = None,
        tile: int | None = None,
        progress: ProgressCallback | None = None,
        anyway: bool = False,
    ) -> NDArray[Any]:
        """Restore a clip, and return its frames.

        A clip outside the recordings that the model was trained on gives a warning. Frames of such
        a clip stay blurry if spikes that the model has not seen fit the restored frames less.

        Args:
            frames: blurry frames, uint8 (T, H, W, 3) RGB, of any number and size; or the path of
                a folder of pictures or of a video file.
            spikes: uint8 (S, h, w) of 0 and 1, divided evenly among the frames, or an array like
                this for each frame; H x W is h x w times a whole number. Or the path of a folder
                of spike files or of one file for all frames. None for a model without.
            exposures: exposures of each frame, in steps of its spikes; spikes for the whole clip
                are not divided then. None takes those of the layout of the run's data.
            simulate_spikes: simulate them from the blurry frames; they add no information.
            sensor: rows and columns of spike files; None takes the size in the files or beside
                them, that of the layout, or half the frames' size.
            layout: layout of spikes, which gives their exposures unless there is a table of them;
                None is that of the run's data set, if it was named there, else ``spk_gopro``.
            tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the free
                memory.
            progress: called with the tiles done and their total.
            anyway: restore a clip far outside the recordings of the training, too.

        Returns:
            uint8 (T, H, W, 3) RGB; uint16 for pictures of 16 bits.

        Raises:
            ConfigError: if the model takes spikes and there are none, or the other way round.
            DataError: if frames or spikes cannot be read, have another type, do not fit together,
                or lie far outside the recordings that the model was trained on.
            RunError: if the memory is too small.
        """
        source = open_clip(
            self.run,
            frames,
            spikes,
            simulate_spikes=simulate_spikes,
            sensor=sensor,
            layout=layout,
            exposures=exposures,
        )
        clip = self.prepare(source, self.tiling(source, tile), anyway=anyway)
        for note in clip.notes:
            warnings.warn(note, stacklevel=2)
        if clip.doubts:
            warnings.warn(doubts_message(list(clip.doubts.values())), stacklevel=2)
        images: list[NDArray[Any]] = []
        worse = []
        for image, is_blurry in self.restore_prepared(clip, progress=progress):
            if is_blurry:
                worse.append(source.names[len(images)])
            images.append(image)
        if worse:
            warnings.warn(kept_frames_warning(worse), stacklevel=2)
        return np.stack(images)

    def restore_folder(
        self,
        frames: str | Path,
        spikes: str | Path | None,
        output: str | Path,
        *,
        simulate_spikes: bool = False,
        sensor: tuple[int, int] | None = None,
        layout: str | None = None,
        sharp: str | Path | None = None,
        no_reference: Sequence[str] = (),
        video: bool = False,
        side_by_side: bool = False,
        tile: int | None = None,
        overwrite: bool = False,
        anyway: bool = False,
        progress: Progresses = progress_bar,
    ) -> RestoredFolder:
        """Restore a clip into a folder, as the command ``vrtspike restore`` does.

        Frames are read, restored and written one by one, so that clips of any length fit into
        memory. Repeat the call to continue after an interruption. Warnings of the result are also
        given as Python warnings.

        Args:
            frames: folder of blurry frames, or a video file.
            spikes: folder of spike files named as the frames, or one file for all; None with
                ``simulate_spikes`` and for a model without spikes.
            output: folder for ``restored/<frame>.png`` and ``restore.json``.
            simulate_spikes: as for :meth:`restore`.
            sensor: as for :meth:`restore`.
            layout: as for :meth:`restore`.
            sharp: folder of sharp frames of the same names, to compare with.
            no_reference: metrics of pyiqa that need no sharp frame, such as ``piqe``.
            video: write ``restored.mp4`` (H.264), too.
            side_by_side: write ``side_by_side.mp4``, too: blurry, restored, and sharp if given.
            tile: as for :meth:`restore`.
            overwrite: remove the results of an earlier call first.
            anyway: as for :meth:`restore`.
            progress: opens the progress of a step by its title.

        Raises:
            ConfigError: if ``output`` holds something else or is no folder, or spikes are missing
                or superfluous.
            DataError: as for :meth:`restore`.
            RunError: if the memory is too small.
        """
        request = Request(
            Path(frames),
            Path(output),
            spikes=None if spikes is None else Path(spikes),
            simulate_spikes=simulate_spikes,
            sensor=sensor,
            layout=layout,
            sharp=None if sharp is None else Path(sharp),
            video=video,
            side_by_side=side_by_side,
            tile=tile,
            overwrite=overwrite,
            no_reference=no_reference,
            anyway=anyway,
        )
        source, truth = open_request(self.run, request)
        notes: list[str] = []
        record = restore_into(self, request, source, truth, progress=progress, note=notes.append)
        result = RestoredFolder(request.output, record, notes, no_reference)
        for warning in result.warnings:
            warnings.warn(warning, stacklevel=2)
        return result


def load(
    run: str | Path = GENERAL,
    *,
    device: str | torch.device | None = None,
    precision: str = "auto",
) -> TrainedModel:
    """Load a trained model.

    Args:
        run: the result folder of a finished run, such as ``results/train/demo``, which holds
            weights, settings and the statistics of spikes; the result of ``vrtspike pack`` or
            ``vrtspike export``; ``owner/name`` of the Hugging Face hub; or ``general``, the
            bundled weights.
        device: ``cpu``, ``cuda`` or, of several GPUs, ``cuda:1``; None takes a GPU if there is
            one.
        precision: ``float32``, ``bfloat16`` or ``float16``; ``auto`` is float32 on a CPU and the
            fastest half type on a GPU.

    Raises:
        ConfigError: if the device is not one of this machine, or the precision is unknown.
        RunError: if the folder is not that of a finished run, a file in it is damaged, or this
            installation lacks the weights.
    """
    folder = find_trained(run)
    if folder.suffix == ".onnx":
        return load_onnx(folder, device, precision)
    chosen_device = choose_device(device)
    chosen_precision = choose_precision(precision, chosen_device)
    published = read_finished(folder)
    settings = deblurring_settings(published.settings, published.name)
    network = load_model(folder / WEIGHTS, settings, chosen_device)
    statistics = None
    limits = None
    if settings.MODEL.USE_SPIKE:
        recorded = read_run_statistics(folder)
        statistics = recorded.voxels
        limits = recorded.limits
    return TrainedModel(
        published,
        file_digest(folder / WEIGHTS),
        chosen_device,
        chosen_precision,
        torch_restorer(network, statistics, chosen_device, getattr(torch, chosen_precision)),
        network,
        statistics,
        limits=limits,
    )


def load_onnx(
    path: Path, device: str | torch.device | None = None, precision: str = "auto"
) -> TrainedModel:
    """Load a model that ``vrtspike export`` has written; it computes on the CPU in float32.

    Args:
        path: path of the file.
        device: None, or the CPU.
        precision: ``auto`` or ``float32``.

    Raises:
        ConfigError: if another device or precision is given.
        RunError: if the file is missing, was written by another program, or was changed.
    """
    if device not in (None, "cpu", torch.device("cpu")) or precision not in ("auto", "float32"):
        raise ConfigError(
            f"{path}: is computed on the CPU in float32, found device {device} and precision "
            f"{precision}; leave them out, or take the run itself"
        )
    metadata, compute = read_onnx(path)
    limits = metadata.get("limits")
    return TrainedModel(
        RunIdentity.parse(metadata["settings"], path),
        metadata["weights"],
        torch.device("cpu"),
        "float32",
        compute,
        ratio=metadata["ratio"],
        limits=None if limits is None else RecordingLimits.parse(limits),
    )

"""Restoration of a clip in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

from numpy.typing import NDArray

from vrtspike.restoration.folder.restored_folder import RestoredFolder
from vrtspike.restoration.inputs.clip_frames import InputFrames
from vrtspike.restoration.inputs.input_clip import InputSpikes
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs.named_models import GENERAL
from vrtspike.system.errors import ConfigError
from vrtspike.system.progress_bar import progress_bar


@overload
def restore(
    frames: InputFrames,
    spikes: InputSpikes | None = None,
    model: str | Path | TrainedModel = GENERAL,
    *,
    output: None = None,
    simulate_spikes: bool = False,
    anyway: bool = False,
) -> NDArray[Any]: ...


@overload
def restore(
    frames: str | Path,
    spikes: str | Path | None = None,
    model: str | Path | TrainedModel = GENERAL,
    *,
    output: str | Path,
    simulate_spikes: bool = False,
    anyway: bool = False,
) -> RestoredFolder: ...


def restore(
    frames: InputFrames,
    spikes: InputSpikes | None = None,
    model: str | Path | TrainedModel = GENERAL,
    *,
    output: str | Path | None = None,
    simulate_spikes: bool = False,
    anyway: bool = False,
) -> NDArray[Any] | RestoredFolder:
    """Restore a clip with a trained model, in one call.

    :func:`vrtspike.load` and the methods of its result have more options, and load the model once
    for several clips.

    Args:
        frames: blurry frames, uint8 (T, H, W, 3) RGB; or the path of a folder of pictures or of a
            video file.
        spikes: spikes of 0 and 1, uint8 (S, h, w), divided evenly among the frames, or an array
            like this for each frame; or the path of a folder of spike files or of one file for all
            frames. None with ``simulate_spikes`` and for a model without spikes.
        model: a loaded model, or its name or folder as for :func:`vrtspike.load`; ``general`` is
            the bundled weights.
        output: folder for restored frames and metrics, of frames and spikes in files; without it
            the restored frames are returned and nothing is written.
        simulate_spikes: simulate spikes from the blurry frames; they add no information.
        anyway: also restore a clip far outside the recordings of the training.

    Returns:
        The restored frames, uint8 (T, H, W, 3) RGB, or uint16 for pictures of 16 bits. With
        ``output`` a :class:`~vrtspike.restoration.folder.restored_folder.RestoredFolder`.

    Raises:
        ConfigError: if the model takes spikes and there are none, or the other way round; or if
            ``output`` is given with arrays.
        DataError: if frames or spikes cannot be read, do not fit together, or are far outside the
            recordings that the model was trained on.
        RunError: if there is no such model, or the memory is too small.

    Examples::

        restored = vrtspike.restore("clip/blur", "clip/spike")
        vrtspike.restore("clip.mp4", "clip.dat", "results/train/mine", output="restored")
    """
    if output is not None:
        frame_path = _in_files("frames", frames)
        spike_path = None if spikes is None else _in_files("spikes", spikes)
    trained = model if isinstance(model, TrainedModel) else load(model)
    if output is not None:
        return trained.restore_folder(
            frame_path, spike_path, output, simulate_spikes=simulate_spikes, anyway=anyway
        )
    with progress_bar("restore, tiles") as progress:
        return trained.restore(
            frames, spikes, simulate_spikes=simulate_spikes, anyway=anyway, progress=progress
        )


def _in_files(name: str, value: object) -> Path:
    """Return an input as a path.

    Raises:
        ConfigError: if it is an array.
    """
    if isinstance(value, str | Path):
        return Path(value)
    raise ConfigError(
        f"{name}: found {type(value).__name__}, expected the path of a folder or file, because an "
        "output is given; leave it out, and the restored frames are returned"
    )

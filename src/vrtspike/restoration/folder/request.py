"""The request to restore a clip into a folder: all options in one place.

It takes no large package, so that a command line makes one at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RestoreRequest:
    """The inputs and options of a restoration into a folder.

    The command line and :meth:`~vrtspike.restoration.trained_model.TrainedModel.restore_folder`
    make one, which all steps read.

    Attributes:
        frames: a folder of pictures or a video file.
        output: folder for ``restored/<frame>.png``, ``restore.json`` and what follows.
        spikes: a folder or a file of recorded spikes; None for simulated ones, or none.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of recorded spikes; None as for
            :func:`~vrtspike.restoration.inputs.clip_spikes.recorded_spikes`.
        layout: name of the layout that gives exposures; None as for
            :func:`~vrtspike.restoration.inputs.input_clip.open_clip`.
        sharp: folder that holds sharp frames of the same names, to compare with.
        video: write ``restored.mp4``.
        side_by_side: write ``side_by_side.mp4``: blurry, restored, sharp if given.
        tile: largest side of a tile, 0 for whole frames; None fits it to the free memory.
        overwrite: remove the results that the record of an earlier call in ``output`` names.
        no_reference: metrics of pyiqa that need no sharp frame.
        page: write ``index.html`` (:mod:`vrtspike.restoration.page.writing`).
        anyway: also restore a recording far outside those that the model was trained on.
    """

    frames: Path
    output: Path
    spikes: Path | None = None
    simulate_spikes: bool = False
    sensor: tuple[int, int] | None = None
    layout: str | None = None
    sharp: Path | None = None
    video: bool = False
    side_by_side: bool = False
    tile: int | None = None
    overwrite: bool = False
    no_reference: Sequence[str] = ()
    page: bool = False
    anyway: bool = False

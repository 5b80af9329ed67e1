"""GoPro's frames with spikes: as published, and as arranged by other projects.

``<root>/<split>/<sequence>/{blur,sharp}/NNNNNN.png`` and ``spike/NNNNNN.dat``; ``kair``:
``<root>/{<split>_GT,<split>_GT_blurred,<split>_spike}/<sequence>/NNNNNN.{png,dat}``; ``nafnet``:
``<root>/<split>/{input,target,spike}/<sequence>-NNNNNN.{png,dat}``.

The spikes are in the folders of the frames or, as published (``GOPRO_Large_spike_seq``), under a
separate root (DATA.SPIKE_ROOT).
"""

from __future__ import annotations

from pathlib import Path

from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.system.errors import DataError

STEPS_PER_SOURCE_FRAME = 8
"""Spike steps from one of GoPro's frames of 240 a second to the next."""


def spk_gopro_exposure(steps: int) -> Exposure:
    """Return all T = 8 N steps; the sharp frame is the middle one of N, at step 4 (N - 1).

    An exposure of less than two source frames has no middle one: its instant is the middle.

    >>> spk_gopro_exposure(88)
    Exposure(start=0, stop=88, sharp=40.0)
    """
    first = STEPS_PER_SOURCE_FRAME if steps >= 2 * STEPS_PER_SOURCE_FRAME else 0
    return Exposure(0, steps, (steps - first) / 2)


class SourceFrameLayout(Layout):
    """A layout whose spike files hold whole source frames, as those of Spk-GoPro."""

    def find_exposure(self, steps: int, file: str | Path) -> Exposure:
        """Return :func:`spk_gopro_exposure`; 88 steps are open from 0 to 88 and sharp at 40."""
        if steps % STEPS_PER_SOURCE_FRAME:
            raise DataError(
                f"{file}: found {steps} steps, expected a multiple of "
                f"{STEPS_PER_SOURCE_FRAME} as in Spk-GoPro: the file is cut or too long, or of "
                "another layout (DATA.LAYOUT), or a table exposures.csv has to say when the "
                "shutter was open"
            )
        return spk_gopro_exposure(steps)


SPK_GOPRO = SourceFrameLayout(
    name="spk_gopro",
    required_folders=tuple(
        (f"{{split}}/*/{part}",) for part in ("blur", "blur_gamma", "sharp", "spike")
    ),
    blur="{split}/{sequence}/blur{gamma}",
    sharp="{split}/{sequence}/sharp",
    spike="{split}/{sequence}/spike",
    streams=("{split}/{sequence}/spike", "{split}/{sequence}/spike/spike"),
    foreign_folders=("{split}/*/exposures.csv", "{split}/*/spike.*"),
)

KAIR = SourceFrameLayout(
    name="kair",
    required_folders=(("{split}_GT",),),
    blur="{split}_GT_blurred{gamma}/{sequence}",
    sharp="{split}_GT/{sequence}",
    spike="{split}_spike/{sequence}",
    streams=("{split}_spike/{sequence}", "{split}_spike/{sequence}/spike"),
)

NAFNET = SourceFrameLayout(
    name="nafnet",
    required_folders=(
        ("{split}/target", "{split}/input"),
        ("{split}/target", "{split}/input_gamma"),
    ),
    blur="{split}/input{gamma}",
    sharp="{split}/target",
    spike="{split}/spike",
    streams=("{split}/spike/{sequence}",),
    prefix="{sequence}-",
)

LAYOUTS = (KAIR, NAFNET, SPK_GOPRO)

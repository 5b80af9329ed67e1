"""Spk-X4K1000FPS: ``<split>_blurry_<L>/<clip>/<occ>/NAME.png``, sharp frames, spikes.

Sharp ones are ``<split>_fullRGB/...``, spikes ``<split>_spike_2xds_<L>/...``. L source frames make
a blurry one; the sensor takes a step with each, and the sharp frame is the middle one. Names count
source frames in fours: ``0001`` is 4, ``0001_002`` is 4 + 2 + 1 = 7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vrtspike.data.raw.layouts.layout import FixedExposureLayout, Layout
from vrtspike.data.raw.numbering import Numbers


def source_frame_numbers(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of the source frames that names denote; None if a name is of another kind.

    >>> source_frame_numbers(["0001", "0001_002"])
    [4, 7]
    """
    numbers = []
    for name in names:
        match = re.fullmatch(r"(\d+)(?:_(\d+))?", name)
        if match is None:
            return None
        number = 4 * int(match[1])
        if match[2]:
            number += int(match[2]) + 1
        numbers.append(number)
    return numbers


class SpkX4KLayout(FixedExposureLayout):
    """A layout of Spk-X4K1000FPS."""

    def numbers(self, names: Sequence[str]) -> Numbers | None:
        """Return the numbers of source frames."""
        return source_frame_numbers(names)


def _layout(length: int) -> Layout:
    return SpkX4KLayout(
        name=f"spk_x4k_{length}",
        required_folders=((f"{{split}}_blurry_{length}",),),
        blur=f"{{split}}_blurry_{length}/{{sequence}}",
        sharp="{split}_fullRGB/{sequence}",
        spike=f"{{split}}_spike_2xds_{length}/{{sequence}}",
        is_nested=True,
        has_unpaired_sharp=True,
        margin=0,
        exposure_steps=length,
        step=None,
    )


LAYOUTS = (_layout(33), _layout(65))

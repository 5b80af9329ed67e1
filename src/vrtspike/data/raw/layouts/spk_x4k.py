"""Spk-X4K1000FPS: ``<split>_blurry_<L>/<clip>/<occ>/NAME.png``, sharp frames, spikes.

Sharp ones are ``<split>_fullRGB/...``, spikes ``<split>_spike_2xds_<L>/...``. L source frames make
a blurry one; the sensor takes a step with each, and the sharp frame is the middle one. Names count
source frames in fours: ``0001`` is 4, ``0001_002`` is 4 + 2 + 1 = 7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vrtspike.data.raw.layouts.layout import Layout, fixed_exposure


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


def _layout(length: int) -> Layout:
    return Layout(
        name=f"spk_x4k_{length}",
        required_folders=((f"{{split}}_blurry_{length}",),),
        blur=f"{{split}}_blurry_{length}/{{sequence}}",
        sharp="{split}_fullRGB/{sequence}",
        spike=f"{{split}}_spike_2xds_{length}/{{sequence}}",
        is_nested=True,
        has_unpaired_sharp=True,
        exposure=fixed_exposure(margin=0, steps=length),
        step=None,
        numbers=source_frame_numbers,
    )


LAYOUTS = (_layout(33), _layout(65))

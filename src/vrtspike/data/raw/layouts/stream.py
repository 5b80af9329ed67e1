"""A long recording for each sequence, ``spike.dat``, with the exposures in ``exposures.csv``.

For your own cameras it is next to ``<split>/<sequence>/{blur,sharp}/NAME.png``.

BSD, DVD and REDS are published without spikes (``rgb_pairs`` is DVD and BSD as ESTRNN takes them).
Spikes simulated from the sharp frames (``scripts/simulate.py --pairs``) are under a root of
their own (DATA.SPIKE_ROOT), as ``<split>/<sequence>/spike.dat`` with its ``exposures.csv``.
"""

from __future__ import annotations

from dataclasses import replace

from vrtspike.data.raw.layouts.files import SensorArea
from vrtspike.data.raw.layouts.layout import Layout

ONE_STREAM = Layout(
    name="stream",
    required_folders=tuple(
        ("{split}/*/exposures.csv", f"{{split}}/*/spike{s}") for s in (".dat", ".npz")
    ),
    blur="{split}/{sequence}/blur{gamma}",
    sharp="{split}/{sequence}/sharp",
    spike=None,
    streams=("{split}/{sequence}/spike",),
    step=None,
)

M1K40 = replace(ONE_STREAM, name="m1k40", required_folders=(), sensor=(1000, 1024))
"""Rows of 1,024 pixels, of which 1,000 are picture; looks like any stream, so it is to be named."""

UHSR = replace(
    ONE_STREAM,
    name="uhsr",
    required_folders=(),
    sensor=(250, 250),
    area=SensorArea(13, 13, 224, 224),
)
"""``spike.npz`` of 250 x 250 pixels, of which rows and columns 13 to 236 are picture; it, too, is
to be named."""


def _pairs(name: str, blur: str, sharp: str) -> Layout:
    """Return a layout without recorded spikes.

    Args:
        name: name of the layout.
        blur: folder of a sequence's blurry frames.
        sharp: folder of its sharp frames.
    """
    return replace(
        ONE_STREAM,
        name=name,
        required_folders=((sharp.replace("{sequence}", "*"),),),
        blur=blur,
        sharp=sharp,
        step=1,
    )


LAYOUTS = (
    ONE_STREAM,
    M1K40,
    UHSR,
    _pairs("bsd", "{split}/{sequence}/Blur/RGB", "{split}/{sequence}/Sharp/RGB"),
    _pairs("dvd", "{split}/{sequence}/input", "{split}/{sequence}/GT"),
    _pairs("reds", "{split}/{split}_blur/{sequence}", "{split}/{split}_sharp/{sequence}"),
    _pairs("rgb_pairs", "{split}/blur/{sequence}", "{split}/gt/{sequence}"),
)

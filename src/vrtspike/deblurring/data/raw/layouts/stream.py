"""One long recording a sequence: ``<split>/<sequence>/{blur,sharp}/NAME.png`` beside ``spike.dat``.

When the shutter was open stands in ``exposures.csv`` beside the frames.
"""

from __future__ import annotations

from dataclasses import replace

from vrtspike.deblurring.data.raw.layouts.files import Area
from vrtspike.deblurring.data.raw.layouts.layout import Layout

ONE_STREAM = Layout(
    name="stream",
    used_by="cameras of one's own",
    marks=tuple(("{split}/*/exposures.csv", f"{{split}}/*/spike{s}") for s in (".dat", ".npz")),
    blur="{split}/{sequence}/blur{gamma}",
    sharp="{split}/{sequence}/sharp",
    spike=None,
    streams=("{split}/{sequence}/spike",),
    step=None,
)

M1K40 = replace(
    ONE_STREAM,
    name="m1k40",
    used_by="recordings of M1K40 cameras",
    marks=(),
    sensor=(1000, 1024),
    area=Area(0, 0, 1000, 1000),
)
"""Rows of 1,024 pixels, of which 1,000 are picture; looks like any stream, so it is to be named."""

UHSR = replace(
    ONE_STREAM,
    name="uhsr",
    used_by="UHSR",
    marks=(("{split}/*/exposures.csv", "{split}/*/spike.npz"),),
    sensor=(250, 250),
    area=Area(13, 13, 224, 224),
)
"""``spike.npz`` of 250 x 250 pixels, of which rows and columns 13 to 236 are picture."""

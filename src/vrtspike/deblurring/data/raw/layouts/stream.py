"""One long recording a sequence, ``spike.dat``; ``exposures.csv`` says when the shutter was open.

Of cameras of one's own it lies beside ``<split>/<sequence>/{blur,sharp}/NAME.png``.

BSD, DVD and REDS are published without spikes. Those that are simulated from the sharp frames
(``scripts/simulate.py --pairs``) lie under a root of their own (DATA.SPIKE_ROOT), as
``<split>/<sequence>/spike.dat`` with its ``exposures.csv``.
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


def _pairs(name: str, used_by: str, mark: str, blur: str, sharp: str) -> Layout:
    return Layout(
        name=name,
        used_by=used_by,
        marks=((mark,),),
        blur=blur,
        sharp=sharp,
        spike=None,
        streams=("{split}/{sequence}/spike",),
    )


LAYOUTS = (
    ONE_STREAM,
    M1K40,
    UHSR,
    _pairs(
        *("bsd", "BSD", "{split}/*/Blur/RGB"),
        blur="{split}/{sequence}/Blur/RGB",
        sharp="{split}/{sequence}/Sharp/RGB",
    ),
    _pairs(
        *("dvd", "DVD (DeepVideoDeblurring)", "{split}/*/GT"),
        blur="{split}/{sequence}/input",
        sharp="{split}/{sequence}/GT",
    ),
    _pairs(
        *("reds", "REDS", "{split}/{split}_sharp"),
        blur="{split}/{split}_blur/{sequence}",
        sharp="{split}/{split}_sharp/{sequence}",
    ),
    _pairs(
        *("rgb_pairs", "DVD and BSD as ESTRNN takes them", "{split}/gt"),
        blur="{split}/blur/{sequence}",
        sharp="{split}/gt/{sequence}",
    ),
)

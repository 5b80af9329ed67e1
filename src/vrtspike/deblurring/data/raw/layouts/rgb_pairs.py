"""Blurry and sharp videos without spikes, as BSD, DVD and REDS are published.

Spikes that are simulated from the sharp frames (``scripts/simulate.py --pairs``) lie under a
root of their own (DATA.SPIKE_ROOT): ``<split>/<sequence>/spike.dat`` with its ``exposures.csv``.
"""

from __future__ import annotations

from vrtspike.deblurring.data.raw.layouts.layout import Layout


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


BSD = _pairs(
    *("bsd", "BSD", "{split}/*/Blur/RGB"),
    blur="{split}/{sequence}/Blur/RGB",
    sharp="{split}/{sequence}/Sharp/RGB",
)
DVD = _pairs(
    *("dvd", "DVD (DeepVideoDeblurring)", "{split}/*/GT"),
    blur="{split}/{sequence}/input",
    sharp="{split}/{sequence}/GT",
)
REDS = _pairs(
    *("reds", "REDS", "{split}/{split}_sharp"),
    blur="{split}/{split}_blur/{sequence}",
    sharp="{split}/{split}_sharp/{sequence}",
)
RGB_PAIRS = _pairs(
    *("rgb_pairs", "DVD and BSD as ESTRNN takes them", "{split}/gt"),
    blur="{split}/blur/{sequence}",
    sharp="{split}/gt/{sequence}",
)

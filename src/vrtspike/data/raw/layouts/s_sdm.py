"""S-SDM's GOPRO: ``<split>/{blur_data,sharp_data,spike_data}/<sequence>/NNNNNN.{png,dat}``.

A file has 20 + 97 + 20 steps; the shutter is open in the middle ones, whose 49th is the sharp
frame. Numbers count GoPro's source frames, 13 from one blurry frame to the next. The sensor has a
quarter of the frames' size.

RSB, the recordings of the same authors: ``{blur_data,spike_data}/<sequence>/NAME.{jpg,dat}``,
without sharp frames. The exposures are not published: a table ``exposures.csv`` in
``spike_data/<sequence>`` gives them.
"""

from __future__ import annotations

from vrtspike.data.raw.layouts.layout import FixedExposureLayout, Layout

S_SDM = FixedExposureLayout(
    name="s_sdm",
    required_folders=(("{split}/blur_data", "{split}/sharp_data"),),
    blur="{split}/blur_data/{sequence}",
    sharp="{split}/sharp_data/{sequence}",
    spike="{split}/spike_data/{sequence}",
    margin=20,
    exposure_steps=97,
    step=13,
    ratio=4,
)

RSB = Layout(
    name="rsb",
    required_folders=(("blur_data", "spike_data"),),
    foreign_folders=("sharp_data",),
    blur="blur_data/{sequence}",
    sharp=None,
    spike="spike_data/{sequence}",
    step=None,
    ratio=4,
    sensor=(250, 400),
)

LAYOUTS = (S_SDM, RSB)

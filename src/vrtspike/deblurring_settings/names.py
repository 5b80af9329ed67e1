"""Names of layouts, metrics and models that presets may use.

They repeat the keys of the registries, which the settings do not import: reading a preset would
then import PyTorch. A test compares them (``tests/deblurring_settings/test_names.py``).
"""

from __future__ import annotations

from typing import Literal

LayoutName = Literal[
    "auto",
    "kair",
    "nafnet",
    "spk_gopro",
    "spk_x4k_33",
    "spk_x4k_65",
    "s_sdm",
    "rsb",
    "stream",
    "m1k40",
    "uhsr",
    "bsd",
    "dvd",
    "reds",
    "rgb_pairs",
]

MetricName = Literal[
    "psnr",
    "psnr_y",
    "ssim",
    "ssim_y",
    "lpips",
    "tof",
]

ModelName = Literal[
    "vrt_spike",
    "spike_nafnet",
]

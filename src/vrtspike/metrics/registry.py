"""The registry of the metrics that an evaluation can measure.

Programs that only make tables and reports read it, so a metric imports packages other than NumPy
and OpenCV when it is loaded.
"""

from __future__ import annotations

from vrtspike.metrics.lpips import LPIPS
from vrtspike.metrics.metric import ImageMetric
from vrtspike.metrics.psnr import PSNR, PSNR_Y
from vrtspike.metrics.ssim import SSIM, SSIM_Y
from vrtspike.metrics.tof import TOF

METRICS: dict[str, ImageMetric] = {
    metric.name: metric
    for metric in (
        PSNR,
        PSNR_Y,
        SSIM,
        SSIM_Y,
        LPIPS,
        TOF,
    )
}
"""By name, in the order of columns in tables."""

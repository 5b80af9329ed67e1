"""Drawing of an exposure: steps, spikes, bins, voxels and the sharp instant."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from svg import FRAME, NETWORK, SPIKE, Box, Drawing, Style
from vrtspike.data.exposure import Exposure
from vrtspike.data.voxels.bins import bin_edges

WIDTH = 900
HEIGHT = 440
_STEP = 6.5
"""Pixels of a step."""
_FIRST = 172.0
"""Left edge of step 0."""
_THRESHOLD = 2.0
"""Light at which a pixel fires, as in Spk-GoPro; a step of a white pixel gives 1."""
_DARK, _BRIGHT = 0.15, 0.8
_EDGE_STEP = 56
"""Step at which an object reaches the second pixel."""
_RED = Style("#ffebee", "#c62828")
_ROW = 34

Brightness = Callable[[int], float]
"""Brightness of a pixel at a step, from 0 to 1."""


class Pixel(NamedTuple):
    """A pixel of the spike camera.

    Attributes:
        name: words beside its spikes.
        brightness: its brightness at a step.
        charge: light that it has collected before step 0.
    """

    name: str
    brightness: Brightness
    charge: float

    def mean(self, steps: int) -> float:
        """Return its brightness in the blurry frame."""
        return sum(map(self.brightness, range(steps))) / steps

    def spikes(self, steps: int) -> list[int]:
        """Return the steps at which it fires: it collects light, fires and keeps the rest.

        >>> Pixel("bright", lambda step: 0.8, charge=0.0).spikes(8)
        [2, 4, 7]
        """
        charge = self.charge
        fired = []
        for step in range(steps):
            charge += self.brightness(step)
            if charge >= _THRESHOLD:
                fired.append(step)
                charge -= _THRESHOLD
        return fired


PIXELS = (
    Pixel("bright pixel", lambda step: _BRIGHT, 0.3),
    Pixel("an edge passes", lambda step: _DARK if step < _EDGE_STEP else _BRIGHT, 0.9),
    Pixel("dark pixel", lambda step: _DARK, 0.2),
)


def x_of(step: float) -> float:
    """Return the left edge of a step."""
    return _FIRST + _STEP * step


def grey(brightness: float) -> Style:
    """Return the colour of a brightness from 0 to 1."""
    level = round(255 * min(brightness, 1.0))
    return Style(f"#{level:02x}{level:02x}{level:02x}", "#8c959f")


def exposure_drawing(exposure: Exposure, bins: int) -> str:
    """Draw an exposure of one frame, as three pixels of the spike camera see it.

    Args:
        exposure: the exposure, from step 0 on.
        bins: K, bins of the voxel grid.

    Returns:
        An SVG file.
    """
    steps, sharp = exposure.steps, int(exposure.sharp)
    drawing = Drawing(
        WIDTH, HEIGHT, "An exposure: spikes of three pixels, bins and the sharp instant"
    )
    draw_exposures(drawing, steps)
    edges = [int(edge) for edge in bin_edges(exposure, bins)]
    drawing.text((16, 88), "Spikes", bold=True)
    for row, pixel in enumerate(PIXELS):
        draw_pixel(drawing, 98 + _ROW * row, pixel, exposure)
    y = 216
    drawing.text((16, y), f"{bins} bins", bold=True)
    for number, (start, stop) in enumerate(pairwise(edges)):
        style = SPIKE if number % 2 else Style("#b2dfdb", SPIKE.stroke)
        drawing.rectangle(Box(x_of(start), y - 12, _STEP * (stop - start), 24), style)
    drawing.note((16, y + 36), "narrow at the sharp instant, wide far from it")
    drawing.text((16, y + 62), "Voxels", bold=True)
    drawing.note((74, y + 62), "spikes / steps of a bin (digits: spikes)")
    for row, pixel in enumerate(PIXELS):
        draw_voxels(drawing, y + 76 + 30 * row, pixel, edges)
    draw_axis(drawing, HEIGHT - 46, exposure)
    x = x_of(sharp)
    drawing.line([(x, 62), (x, HEIGHT - 46)], _RED, dashed=True)
    return drawing.document()


def draw_exposures(drawing: Drawing, steps: int) -> None:
    """Draw the open shutter of the frame, and the ends of those before and after it."""
    y, height = 18, 30
    drawing.text((16, y + height / 2), "Shutter", bold=True)
    pale = Style("#fffdf5", "#e0d0a0")
    drawing.rectangle(Box(x_of(-5), y, 5 * _STEP, height), pale)
    drawing.rectangle(Box(x_of(steps), y, 5 * _STEP, height), pale)
    words = f"open for {steps} steps: the exposure of one blurry frame"
    drawing.box(Box(x_of(0), y, steps * _STEP, height), [words], FRAME)
    drawing.note((839, y + 46), "in the frames", anchor="middle")
    drawing.text((812, y + 64), "blurry", anchor="middle", bold=True)
    drawing.text((866, y + 64), "sharp", anchor="middle", bold=True)


def draw_pixel(drawing: Drawing, y: float, pixel: Pixel, exposure: Exposure) -> None:
    """Draw the spikes of a pixel, and the same pixel of the blurry and of the sharp frame."""
    steps = exposure.steps
    base = y + 24
    drawing.note((16, y + 14), pixel.name)
    drawing.line([(x_of(0), base), (x_of(steps), base)], grey(0.6))
    for step in pixel.spikes(steps):
        x = x_of(step + 0.5)
        drawing.line([(x, base), (x, y + 4)], NETWORK)
    drawing.rectangle(Box(799, y, 26, 26), grey(pixel.mean(steps)))
    drawing.rectangle(Box(853, y, 26, 26), grey(pixel.brightness(int(exposure.sharp))))


def draw_voxels(drawing: Drawing, y: float, pixel: Pixel, edges: list[int]) -> None:
    """Draw the spike rate of each bin as a grey value; the numbers are counts of spikes."""
    drawing.note((16, y + 12), pixel.name)
    spikes = pixel.spikes(edges[-1])
    for start, stop in pairwise(edges):
        count = sum(start <= step < stop for step in spikes)
        box = Box(x_of(start), y, _STEP * (stop - start), 24)
        rate = _THRESHOLD * count / (stop - start)
        drawing.rectangle(box, grey(rate))
        if stop - start > 2:
            color = "#ffffff" if rate < 0.5 else "#000000"
            drawing.text((box.x + box.width / 2, y + 12), str(count), anchor="middle", color=color)


def draw_axis(drawing: Drawing, y: float, exposure: Exposure) -> None:
    """Draw the axis of steps, and name the sharp instant."""
    drawing.note((16, y + 14), "step, one read-out")
    drawing.line([(x_of(0), y), (x_of(exposure.steps), y)], grey(0.3))
    sharp = int(exposure.sharp)
    for step in (0, 20, sharp, 60, exposure.steps):
        drawing.line([(x_of(step), y), (x_of(step), y + 5)], grey(0.3))
        color = _RED.stroke if step == sharp else "#57606a"
        drawing.text((x_of(step), y + 14), str(step), anchor="middle", color=color)
    words = f"sharp instant: the sharp frame shows step {sharp}"
    drawing.text((x_of(sharp), y + 32), words, anchor="middle", bold=True, color=_RED.stroke)

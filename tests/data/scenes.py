"""Small films with texture and motion for the tests of this folder."""

from __future__ import annotations

import cv2
import numpy as np

from vrtspike.data.raw.packed import PackedSpikes


def texture(seed, height, width):
    """A random smooth colour texture, uint8 (height, width, 3)."""
    noise = np.random.default_rng(seed).random((height, width, 3), dtype=np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.5)
    return (255 * np.clip(0.5 + 4 * (smooth - smooth.mean()), 0, 1)).astype(np.uint8)


def film(seed, count, height=96, width=128, speed=2):
    """``count`` frames uint8 (height, width, 3) of a texture that moves to the left."""
    scene = texture(seed, height, width + speed * count)
    return [scene[:, speed * i : speed * i + width] for i in range(count)]


def packed(spikes):
    """Spikes (T, h, w) of 0 and 1, packed."""
    return PackedSpikes.pack(spikes.astype(np.uint8))

"""Textured frames that the metrics compare."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

Pair = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="session")
def noisy_and_sharp() -> Pair:
    """A noisy and a sharp frame of odd sizes."""
    rng = np.random.default_rng(3)
    smooth = cv2.GaussianBlur(rng.uniform(0, 255, (47, 61, 3)), (0, 0), 3)
    sharp = np.clip((smooth - smooth.mean()) * 6 + 128, 0, 255).astype(np.uint8)
    noisy = np.clip(sharp + rng.normal(0, 9, sharp.shape), 0, 255).astype(np.uint8)
    return noisy, sharp

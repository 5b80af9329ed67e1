from __future__ import annotations

import numpy as np
import pytest

from vrtspike.deblurring.data.gate.consistency import LEAST_LIKENESS, likeness


@pytest.fixture
def frame() -> np.ndarray:
    ramp = np.linspace(50, 200, 96)
    waves = 20 * np.sin(np.arange(64) / 5)[:, None]
    return np.repeat((ramp + waves).round().astype(np.uint8)[..., None], 3, axis=-1)


def test_brightness_contrast_and_fine_detail_count_nothing(frame):
    assert likeness(frame, frame) == pytest.approx(1)
    assert likeness(frame // 2 + 9, frame) == pytest.approx(1, abs=1e-3)
    assert likeness(255 - frame, frame) == pytest.approx(-1)
    rows, columns = np.mgrid[:64, :96]
    board = np.where((rows + columns) % 2, 40, 0).astype(np.uint8)[..., None]
    assert likeness(frame + board, frame) > 0.98
    assert likeness(frame[:, ::-1], frame) < LEAST_LIKENESS


def test_a_frame_without_contrast_tells_nothing(frame):
    assert likeness(np.full_like(frame, 90), frame) == 1

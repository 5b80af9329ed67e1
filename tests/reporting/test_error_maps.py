"""Error maps: colours and their scale."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.reporting.error_maps import ERROR_TOP, error_colors, error_map


@pytest.mark.parametrize(
    ("changes", "color"),
    [
        ((0, 0, 0), 0),
        # The mean over the colours, whatever the sign: 8 of 32 grey values are a quarter.
        ((24, 0, 0), 2),
        ((0, -12, -12), 2),
        ((ERROR_TOP,) * 3, -1),
        ((150,) * 3, -1),
    ],
)
def test_an_error_map_is_black_where_nothing_differs_and_lightest_at_the_top(changes, color):
    sharp = np.full((1, 1, 3), 100, np.uint8)
    shown = error_map((sharp + np.array(changes)).astype(np.uint8), sharp)
    expected = [int(part) for part in error_colors()[color][4:-1].split()]
    np.testing.assert_allclose(shown[0, 0], expected, atol=2)
    # Inferno: light yellow, more red than blue.
    red, _, blue = error_map(sharp + np.uint8(150), sharp)[0, 0]
    assert red > 240 > blue

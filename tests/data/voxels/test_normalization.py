"""Statistics of voxels; the doctests compute them and normalise."""

from __future__ import annotations

import pytest

from vrtspike.data.voxels.normalization import histogram_statistics
from vrtspike.system.errors import DataError


def test_statistics_of_a_constant_are_refused():
    with pytest.raises(DataError, match="no signal"):
        histogram_statistics([(2.0, {"2": [10, 0, 0]})])

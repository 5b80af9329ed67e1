"""The steps of a recording that lie in exposures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from vrtspike.data.exposure import Exposure


class CoveredSteps:
    """The steps of a recording that exposures cover.

    Args:
        exposures: exposures in steps of the recording, in any order; they may overlap.

    >>> covered = CoveredSteps([Exposure(0, 8, 4), Exposure(10, 18, 14)])
    >>> covered.overlaps(8, 10), covered.overlaps(7, 10)
    (False, True)
    """

    def __init__(self, exposures: Iterable[Exposure]) -> None:
        ordered = sorted(exposures)
        self._starts = [exposure.start for exposure in ordered]
        # For each exposure, the latest end among it and all that start before it.
        self._latest_stops = list(accumulate((exposure.stop for exposure in ordered), max))

    def overlaps(self, start: int, stop: int) -> bool:
        """Return True if an exposure has steps from ``start`` up to ``stop``, which is excluded.

        The time grows with the logarithm of the number of exposures.
        """
        earlier = bisect_left(self._starts, stop)
        return earlier > 0 and self._latest_stops[earlier - 1] > start

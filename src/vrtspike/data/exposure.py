"""The exposure of a frame, in steps of its spike file.

An exposure is the steps with the shutter open and the step that the sharp frame shows, which may
be between two. Exposures come from two sources only: the layout of the files
(:mod:`vrtspike.data.raw.layouts.layout`) and a table ``exposures.csv`` next to the frames with a
line for each (``frame``, its name without suffix; ``start``, ``stop`` and ``sharp``, counted from
the start of the spike file).

Like the layouts it stays within the standard library.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import NamedTuple

from vrtspike.system.errors import DataError, list_faults

EXPOSURE_TABLE = "exposures.csv"
EXPOSURE_COLUMNS = ("frame", "start", "stop", "sharp")
POSSIBLE_EXPOSURE = "whole numbers 0 <= start < stop and a number sharp from start to stop"
"""The exposures that :func:`is_possible` accepts, in words."""


class Exposure(NamedTuple):
    """The exposure of one frame; steps count from the start of its recording.

    Attributes:
        start: first step with the shutter open.
        stop: the step after the last one.
        sharp: the instant of the sharp frame; 3 is the middle of step 3.
    """

    start: int
    stop: int
    sharp: float

    @property
    def steps(self) -> int:
        """T, the number of steps with the shutter open."""
        return self.stop - self.start

    def moved(self, steps: int) -> Exposure:
        """Return the exposure shifted by a number of steps, later if positive."""
        return Exposure(self.start + steps, self.stop + steps, self.sharp + steps)

    def widened(self, context: int, total: int) -> Exposure:
        """Return the exposure with steps of the closed shutter on both sides.

        Args:
            context: maximum steps on each side.
            total: steps of the recording, which limit the exposure.
        """
        return Exposure(max(0, self.start - context), min(total, self.stop + context), self.sharp)


def is_possible(exposure: Exposure) -> bool:
    """Return whether values that a user gives, of any type, are those of an exposure.

    >>> is_possible(Exposure(0, 56, 24.5)), is_possible(Exposure(0, 56, 57))
    (True, False)
    """
    start, stop, sharp = exposure
    if not (isinstance(start, Integral) and isinstance(stop, Integral) and isinstance(sharp, Real)):
        return False
    return 0 <= start < stop and start <= sharp <= stop


def exposure_of_average(frames: int, steps_per_frame: int) -> Exposure:
    """Return the exposure of an average of source frames; the sharp frame is the middle one.

    The first source frame is at step 0, so the middle one of an odd number is half a frame
    before the middle of the steps. A single frame has its instant in the middle.

    >>> exposure_of_average(11, steps_per_frame=8)
    Exposure(start=0, stop=88, sharp=40)
    """
    steps = frames * steps_per_frame
    if frames <= 1:
        return Exposure(0, steps, steps / 2)
    return Exposure(0, steps, steps_per_frame * (frames // 2))


def read_exposures(path: Path, *, has_sharp: bool = True) -> dict[str, Exposure]:
    """Read the exposures of a table, by the names of their frames.

    Args:
        path: path of the table.
        has_sharp: true if there are sharp frames. Without them the column ``sharp`` is optional:
            the instant is the middle of the exposure.

    Raises:
        DataError: naming every line that is not an exposure.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        table = csv.DictReader(io.StringIO(text))
        found = table.fieldnames or ()
        lines = [(table.line_num, row) for row in table]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    except csv.Error as error:
        raise DataError(f"{path}: {error}; close the quotation mark that is left open") from error
    columns = EXPOSURE_COLUMNS if has_sharp else EXPOSURE_COLUMNS[:-1]
    if not set(columns) <= set(found):
        raise DataError(
            f"{path}: found the columns {', '.join(found) or 'none'}, expected {', '.join(columns)}"
        )
    exposures: dict[str, Exposure] = {}
    faults = []
    for number, row in lines:
        name = row["frame"]
        exposure = _parse_row(row, has_sharp=has_sharp)
        if name and exposure is not None and name not in exposures:
            exposures[name] = exposure
        else:
            faults.append(
                f"line {number}, frame {name}: found start {row['start']}, stop "
                f"{row['stop']} and sharp {row.get('sharp')}, expected a frame that is there once, "
                f"{POSSIBLE_EXPOSURE}"
            )
    if faults:
        raise DataError(list_faults(f"{path}: lines that are no exposure", faults, "Fix them."))
    return exposures


def _parse_row(row: Mapping[str, str], *, has_sharp: bool) -> Exposure | None:
    """Return the exposure of a line of a table; None if it is none.

    Args:
        row: the line, by column.
        has_sharp: see :func:`read_exposures`.
    """
    try:
        start = int(row["start"])
        stop = int(row["stop"])
        if not has_sharp and not row.get("sharp"):
            sharp = (start + stop) / 2
        else:
            sharp = float(row["sharp"])
    except (TypeError, ValueError):
        return None
    exposure = Exposure(start, stop, sharp)
    return exposure if is_possible(exposure) else None


def exposure_table(exposures: Mapping[str, Exposure]) -> str:
    """Return the contents of a table; the inverse of :func:`read_exposures`."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(EXPOSURE_COLUMNS)
    for name, exposure in exposures.items():
        table.writerow([name, exposure.start, exposure.stop, f"{exposure.sharp:.15g}"])
    return stream.getvalue()

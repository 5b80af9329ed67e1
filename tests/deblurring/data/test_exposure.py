from __future__ import annotations

import pytest

from vrtspike.deblurring.data.exposure import Exposure, exposure_table, read_exposures
from vrtspike.errors import DataError


def test_a_table_is_read_as_it_was_written(tmp_path):
    exposures = {"000001": Exposure(20, 117, 68), "000014": Exposure(200, 297, 248.5)}
    path = tmp_path / "exposures.csv"
    path.write_text(exposure_table(exposures))
    assert path.read_text().splitlines()[1] == "000001,20,117,68"
    assert read_exposures(path) == exposures


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1,a,8,4", "frame 1: found start a, stop 8 and sharp 4, expected whole numbers"),
        ("1,0,8", "sharp None"),
        ("1,8,8,8", "start 8, stop 8"),
        ("1,-1,8,4", "start -1"),
        ("1,0,8,9", "sharp 9"),
        ("1,0,8,nan", "sharp nan"),
        ("2,0,8,4", "line 3, frame 2: there twice"),
    ],
)
def test_lines_that_are_no_exposure_are_named(tmp_path, line, fault):
    path = tmp_path / "exposures.csv"
    path.write_text(f"frame,start,stop,sharp\n2,0,8,4\n{line}\n")
    with pytest.raises(DataError, match=rf"exposures\.csv(.|\n)*{fault}"):
        read_exposures(path)


def test_a_table_without_its_columns_is_refused(tmp_path):
    path = tmp_path / "exposures.csv"
    path.write_text("frame,start,end\n1,0,8\n")
    with pytest.raises(DataError, match="found the columns frame, start, end, expected frame, st"):
        read_exposures(path)

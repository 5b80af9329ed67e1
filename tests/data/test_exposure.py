"""Tables of exposures: round trip, missing sharp instants and invalid lines."""

from __future__ import annotations

import pytest

from vrtspike.data.exposure import Exposure, exposure_table, read_exposures
from vrtspike.system.errors import DataError


def test_a_table_is_read_as_it_was_written(tmp_path):
    exposures = {"000001": Exposure(20, 117, 68), "14": Exposure(1234500, 1234600, 1234567.5)}
    path = tmp_path / "exposures.csv"
    path.write_text(exposure_table(exposures))
    assert path.read_text().splitlines()[1] == "000001,20,117,68"
    assert read_exposures(path) == exposures
    strange = dict.fromkeys(["a,1", 'a "b"', "a\nb"], Exposure(0, 8, 4))
    path.write_text(exposure_table(strange))
    assert read_exposures(path) == strange


@pytest.mark.parametrize(
    ("table", "sharp"),
    [
        ("frame,start,stop\n1,2,9\n", 5.5),
        ("frame,start,stop,sharp\n1,2,9,\n", 5.5),
        ("frame,start,stop,sharp\n1,2,9,3\n", 3),
    ],
)
def test_without_sharp_frames_the_instant_is_the_middle_unless_it_is_said(tmp_path, table, sharp):
    path = tmp_path / "exposures.csv"
    path.write_text(table)
    assert read_exposures(path, has_sharp=False) == {"1": Exposure(2, 9, sharp)}
    if sharp == 5.5:
        with pytest.raises(
            DataError, match=r"exposures\.csv: (found the columns|lines that are no)"
        ):
            read_exposures(path)


HEAD = "frame,start,stop,sharp\n2,0,8,4\n"


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("frame,start,end\n1,0,8\n", "found the columns frame, start, end, expected frame, st"),
        (HEAD + "1,a,8,4", "frame 1: found start a, stop 8 and sharp 4, expected .* whole numbers"),
        (HEAD + "1,0,8", "sharp None"),
        (HEAD + "1,8,8,8", "start 8, stop 8"),
        (HEAD + "1,-1,8,4", "start -1"),
        (HEAD + "1,0,8,9", "sharp 9"),
        (HEAD + "1,0,8,nan", "sharp nan"),
        (HEAD + "2,0,8,4", "line 3, frame 2: .* expected a frame that is there once"),
        (HEAD + ",0,8,4", "line 3, frame : .* expected a frame that is there once"),
        ("start,stop,sharp,frame\n0,8,4\n", "line 2, frame None: .* expected a frame"),
        (HEAD + '"1,0,8,4\n' + 20_000 * "3,0,8,4\n", "field .* close the quotation mark"),
    ],
)
def test_what_is_no_exposure_is_named(tmp_path, table, fault):
    path = tmp_path / "exposures.csv"
    path.write_text(table)
    with pytest.raises(DataError, match=rf"exposures\.csv(.|\n)*{fault}"):
        read_exposures(path)

from __future__ import annotations

from tests.reporting.results import make_alignment
from vrtspike.reporting.alignment import COLUMNS, read_alignment


def test_medians_and_extremes_of_every_sequence(tmp_path):
    found = read_alignment(make_alignment(tmp_path))
    assert found is not None
    assert (found.dataset, found.exposures, found.lowest) == ("gopro", 4, "test/b")
    assert (found.offset, found.correlation) == (0.5, 0.9)
    a, b = (dict(zip(COLUMNS, row, strict=True)) for row in found.rows)
    assert (a["sequence"], a["exposures"], a["offset"]) == ("a", 1, 0.5)
    assert b["exposures"] == 3
    assert (b["offset"], b["offset_low"], b["offset_high"]) == (0.5, -1.0, 2.0)
    assert (b["correlation"], b["correlation_low"], b["correlation_high"]) == (0.8, 0.7, 0.9)


def test_a_data_set_without_spikes_has_no_exposures(tmp_path):
    found = read_alignment(make_alignment(tmp_path, rows=""))
    assert found is not None
    assert (found.exposures, found.rows, found.correlation) == (0, (), None)


def test_nothing_can_be_said(tmp_path):
    found = read_alignment(make_alignment(tmp_path, rows="test,a,000001,0,88,9,40.0,,\n"))
    assert found is not None
    assert (found.exposures, found.lowest, found.offset) == (1, "", None)


def test_without_a_table_there_is_none(tmp_path):
    assert read_alignment(tmp_path / "alignment.csv") is None


def test_names_that_look_like_nothing_are_names(tmp_path):
    rows = "test,NA,000001,0,88,9,40.0,39.0,0.9\ntest,null,000001,0,88,9,40.0,,\n"
    found = read_alignment(make_alignment(tmp_path, rows=rows))
    assert [row[:3] for row in found.rows] == [("test", "NA", 1), ("test", "null", 1)]
    assert found.lowest == "test/NA"

"""The alignment of spikes and frames on the report page."""

from __future__ import annotations

import pytest

from tests.reporting.results import make_alignment
from vrtspike.deblurring.alignment_section import alignment_part


def part_of(tmp_path, rows: str):
    return alignment_part(make_alignment(tmp_path, rows=rows))


def test_medians_and_extremes_of_every_sequence(tmp_path):
    correlation, offset = alignment_part(make_alignment(tmp_path))["plots"]
    assert (correlation["axis"], offset["axis"]) == ("correlation", "spike steps")
    assert correlation["dots"][1] == {"label": "test/b", "value": 0.8, "low": 0.7, "high": 0.9}
    assert offset["dots"] == [
        {"label": "test/a", "value": 0.5, "low": 0.5, "high": 0.5},
        {"label": "test/b", "value": 0.5, "low": -1.0, "high": 2.0},
    ]


def test_the_alignment_in_words(tmp_path):
    part = alignment_part(make_alignment(tmp_path))
    assert part["title"] == "gopro"
    assert part["text"] == (
        "4 exposures: spikes and sharp frame correlate by 0.900 (median); the sequence with the "
        "lowest is test/b. The sharp frame is the middle one of its exposure, found 0.50 spike "
        "steps after its expected place (median)."
    )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("test,a,1,0,88,9,40.0,39.75,-0.9\n", "correlate by −0.900 (median)"),
        ("test,a,1,0,88,9,40.0,39.75,-0.9\n", "found 0.25 spike steps before its expected"),
        ("test,a,1,0,88,9,40.0,,-0.0001\n", "correlate by 0.000 (median)"),
        ("test,a,1,0,88,9,40.0,,0.9\n", "is the middle one of its exposure."),
        # Names that look like nothing are names.
        (
            "test,NA,1,0,88,9,40.0,39.0,0.9\ntest,null,1,0,88,9,40.0,,\n",
            "2 exposures: spikes and sharp frame correlate by 0.900 (median); the sequence with "
            "the lowest is test/NA.",
        ),
    ],
)
def test_numbers_in_words(tmp_path, rows, text):
    assert text in part_of(tmp_path, rows)["text"]


def test_data_without_spikes_or_motion_have_no_plots(tmp_path):
    assert alignment_part(tmp_path / "none/alignment.csv") is None
    none = part_of(tmp_path, rows="")
    assert (none["text"], none["plots"], none["note"]) == ("gopro has no spikes.", [], "")
    still = part_of(tmp_path, rows="test,a,000001,0,88,9,40.0,,\n")
    assert still["text"] == "1 exposures; nothing can be said about their alignment."
    assert [plot["dots"][0]["value"] for plot in still["plots"]] == [None, None]

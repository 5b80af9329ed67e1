"""The alignment of spikes and frames on the report page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reporting.results import make_alignment
from vrtspike.deblurring.alignment_part import alignment_part, alignment_text, read_alignment


def test_medians_and_extremes_of_every_sequence(tmp_path):
    alignment = read_alignment(make_alignment(tmp_path))
    assert (alignment.dataset, alignment.exposures) == ("gopro", 4)
    assert (alignment.offset, alignment.correlation) == (0.5, 0.9)
    a, b = alignment.rows
    assert (a["sequence"], a["exposures"], a["offset"]) == ("a", 1, 0.5)
    assert b == {
        "split": "test", "sequence": "b", "exposures": 3, "offset": 0.5, "offset_low": -1.0,
        "offset_high": 2.0, "correlation": 0.8, "correlation_low": 0.7, "correlation_high": 0.9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "exposures", "correlation"),
    [
        ("", 0, None),
        ("test,a,000001,0,88,9,40.0,,\n", 1, None),
        # Names that look like nothing are names.
        ("test,NA,1,0,88,9,40.0,39.0,0.9\ntest,null,1,0,88,9,40.0,,\n", 2, 0.9),
    ],
)
def test_alignment_with_little_data(tmp_path, rows, exposures, correlation):
    alignment = read_alignment(make_alignment(tmp_path, rows=rows))
    assert (alignment.exposures, alignment.correlation) == (exposures, correlation)
    assert [row["sequence"] for row in alignment.rows] == [
        line.split(",")[1] for line in rows.splitlines()
    ]
    assert read_alignment(tmp_path / "none/alignment.csv") is None


def test_the_alignment_in_words_and_plots(tmp_path):
    alignment = read_alignment(make_alignment(tmp_path))
    assert alignment_text(alignment) == (
        "4 exposures: spikes and sharp frame correlate by 0.900 (median); the sequence with the "
        "lowest is test/b. The sharp frame is the middle one of its exposure, found 0.50 spike "
        "steps after its expected place (median)."
    )
    part = alignment_part(alignment)
    assert (part["title"], part["text"]) == ("gopro", alignment_text(alignment))
    correlation, offset = part["plots"]
    assert correlation["dots"][1] == {"label": "test/b", "value": 0.8, "low": 0.7, "high": 0.9}
    assert (offset["axis"], offset["dots"][1]["low"]) == ("spike steps", -1.0)
    before = replace(alignment, offset=-0.25, correlation=-0.9)
    assert "correlate by −0.900 (median)" in alignment_text(before)
    assert "found 0.25 spike steps before its expected" in alignment_text(before)
    unknown = replace(alignment, offset=None)
    assert alignment_text(unknown).endswith("is the middle one of its exposure.")


def test_data_without_spikes_or_motion_have_no_plots(tmp_path):
    none = alignment_part(read_alignment(make_alignment(tmp_path, rows="")))
    assert (none["text"], none["plots"], none["note"]) == ("gopro has no spikes.", [], "")
    still = read_alignment(make_alignment(tmp_path, rows="test,a,000001,0,88,9,40.0,,\n"))
    part = alignment_part(still)
    assert part["text"] == "1 exposures; nothing can be said about their alignment."
    assert [plot["dots"][0]["value"] for plot in part["plots"]] == [None, None]

from __future__ import annotations

import pytest

from vrtspike.analysis.evaluation_files import read_summary, write_summary
from vrtspike.io.files import write_json
from vrtspike.system.errors import RunError

CONTENTS = {"preset": "a", "metrics": {"psnr": {"restored": 29.18}}, "worst": []}


def test_a_summary_comes_back_as_it_was_written(tmp_path):
    write_summary(tmp_path / "summary.json", CONTENTS)
    assert read_summary(tmp_path / "summary.json") == CONTENTS


def test_a_summary_of_an_earlier_version_has_no_digest(tmp_path):
    write_json(tmp_path / "summary.json", CONTENTS)
    assert read_summary(tmp_path / "summary.json") == CONTENTS


def test_a_figure_that_was_changed_by_hand_is_noticed(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, CONTENTS)
    path.write_text(path.read_text().replace("29.18", "39.99"))
    with pytest.raises(RunError, match=r"summary\.json: changed .* evaluate again"):
        read_summary(path)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_what_is_no_summary_is_refused(text, tmp_path):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(RunError, match=r"summary\.json: .*; evaluate again"):
        read_summary(tmp_path / "summary.json")

"""The command vrtspike figure: its options, its files and its refusals."""

from __future__ import annotations

import pytest

from tests.paper_figures.conftest import evaluated
from vrtspike.commands.main import run_command
from vrtspike.paper_figures.names import FIGURE_NAMES
from vrtspike.system.errors import UserError

__all__ = ["evaluated"]


def test_it_draws_what_there_are_data_for(evaluated, tmp_path, capsys):
    words = ["figure", str(evaluated / "train/one"), str(evaluated / "train/two")]
    words += ["--labels", "Ours", "RGB only", "--device", "cpu", "-o", str(tmp_path / "figures")]
    assert run_command(words) is None
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == list(FIGURE_NAMES)
    # The sensor of 24 x 32 pixels is too small.
    assert [line.split(":")[0] for line in lines if "left out" in line] == ["gain_over_motion"]
    header = (tmp_path / "figures/psnr_over_frames.csv").read_text().splitlines()[0]
    assert header == "sequence,frame,number,blurry,Ours,RGB only"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "crop"], "--only: no figure 'crop'; did you mean crops?; figures: crops, "),
        (["--row", "b"], "--row b: expected SEQUENCE:ROW"),
        (["--crop", "b"], "--crop b: expected SEQUENCE/FRAME:x,y,w,h"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    with pytest.raises(UserError) as raised:
        run_command(["figure", str(tmp_path), *options])
    assert message in str(raised.value)

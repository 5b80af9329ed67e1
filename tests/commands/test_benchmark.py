"""``vrtspike benchmark`` as a user types it; tests/analysis/test_turns.py has what goes wrong."""

from __future__ import annotations

import math
from statistics import median

import pytest

from tests.analysis.benchmarked import MANIFEST, asked, files, planned, temporary
from vrtspike.commands.main import run_command
from vrtspike.errors import UserError

__all__ = ["planned", "temporary"]

LENGTH = ["--turns", "3", "--steps", "3", "--warm-up", "1"]
TIMES = [[9e3, 400.0, 420.0, 410.0], [9e3, 100.0, 110.0, 90.0]] * 3
CHANGE = ["--against", "TRAIN.EMA=0.9", "DATALOADER.TRAIN_WORKERS=1"]


def test_the_printed_ratio_is_that_of_the_records(planned, temporary, capsys):
    folder = planned(*({"ms": ms} for ms in TIMES))
    before = files(folder)
    assert not run_command(["benchmark", "tiny", *CHANGE, *LENGTH, "-o", "out/b.txt"])
    shown = capsys.readouterr()
    steps = [ms[1:] for ms in TIMES]
    ratio = math.prod(median(steps[n]) / median(steps[n + 1]) for n in (0, 2, 4)) ** (1 / 3)
    assert f"ratio of step times: {ratio:.3f} (95%: " in shown.out
    assert shown.out.endswith(f"changed is {ratio:.2f} x as fast\n")
    assert shown.out.splitlines()[1:3] == [
        '  DATALOADER.TRAIN_WORKERS: "auto" -> 1',
        "  TRAIN.EMA: 0.0 -> 0.9",
    ]
    assert shown.err.splitlines()[1] == (
        "turn 2 of 6, changed (DATALOADER.TRAIN_WORKERS=1 TRAIN.EMA=0.9): 0.1 s a step"
    )
    assert shown.err.endswith("written to out/b.txt\n")
    assert (folder / "out/b.txt").read_text() == shown.out
    for each, average in zip(asked(folder), [0.0, 0.9] * 3, strict=True):
        workflow = each["workflow"]
        assert each["settings"]["TRAIN"]["EMA"] == average
        assert (each["dataset"], workflow["GPUS"]) == (str(MANIFEST), 0)
        for place in (workflow["RUNS"], workflow["RESULTS"], each["output"], each["log"]):
            assert place.startswith(f"{temporary}/")
    assert files(folder) - before == {"asked.jsonl", "out/b.txt"}
    assert list(temporary.iterdir()) == []


def test_it_says_what_first_steps_are(planned, capsys):
    planned(*({"ms": ms} for ms in TIMES))
    run_command(["benchmark", "phases", *CHANGE, *LENGTH])
    note = (
        "timed are the first steps, with TRAIN.PROGRESSIVE=[{'CROP_SIZE': 32, 'EPOCHS': 1000000}]"
    )
    assert f"\n{note}\n" in capsys.readouterr().out


def test_a_configuration_is_heard(planned, capsys):
    folder = planned(*({"ms": ms} for ms in TIMES))
    given = ["--config", "GPUS=3", "SET=TRAIN.BATCH_SIZE=2"]
    run_command(["benchmark", "tiny", *CHANGE, *LENGTH, *given])
    for each in asked(folder):
        assert each["workflow"]["GPUS"] == 3
        assert each["settings"]["TRAIN"]["BATCH_SIZE"] == 2


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (
            ["tiny", "--against", "DATALOADER.NUM_WORKERS=0"],
            "did you mean DATALOADER.TRAIN_WORKERS",
        ),
        (["tiny", "--against", "TRAIN.BATCH_SIZE=1"], "has these values already"),
        (["tony", "--against", "TRAIN.BATCH_SIZE=2"], "no preset 'tony'; there are"),
        (
            ["other", "--against", "TRAIN.BATCH_SIZE=2"],
            "k4/dataset.json: no such file, the data of preset other are not prepared; prepare "
            "them: snakemake --cores 2 results/data/tiny/k4/dataset.json",
        ),
        # The change asks for other data.
        (
            ["tiny", "--against", "DATA.NUM_VOXEL_BINS=4"],
            "snakemake --cores 2 results/data/tiny/k4/dataset.json",
        ),
    ],
)
def test_nothing_is_trained_for_what_cannot_be_compared(planned, words, match):
    folder = planned()
    with pytest.raises(UserError, match=match):
        run_command(["benchmark", *words])
    assert not (folder / "asked.jsonl").exists()


def test_too_few_turns_are_refused(capsys):
    with pytest.raises(SystemExit):
        run_command(["benchmark", "tiny", *CHANGE, "--turns", "2"])
    assert "--turns: found 2, expected 3 or more" in capsys.readouterr().err

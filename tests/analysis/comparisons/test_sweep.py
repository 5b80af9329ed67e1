"""Tables of sweeps: order of the members, means over seeds, notes."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.helpers.published_runs import write_lines
from vrtspike.analysis.comparisons.sweep import parallel_coordinates, write_sweep
from vrtspike.io.files import write_json
from vrtspike.metrics.psnr import PSNR
from vrtspike.system.errors import RunError

VALUES = {
    "rates-a": {"TRAIN.OPTIM.LR": 0.01, "TRAIN.BATCH_SIZE": 1},
    "rates-b": {"TRAIN.OPTIM.LR": 0.002, "TRAIN.BATCH_SIZE": 1},
    "rates-c": {"TRAIN.OPTIM.LR": 0.002, "TRAIN.EMA": 0.9},
}


def test_a_row_for_each_preset_the_best_validation_first(publish, tmp_path):
    by_name = {"rates-a": 30.0, "rates-b": 32.0, "rates-c": 31.0}
    folders = [publish(name, psnr=psnr) for name, psnr in by_name.items()]
    for folder in folders:  # an earlier validation does not count
        log = folder / "metrics.jsonl"
        earlier = {"kind": "validation", "step": 0, "psnr": 99.0, "ssim": 0.99}
        log.write_text(f"{json.dumps(earlier)}\n{log.read_text()}")
    table = write_sweep(folders, VALUES, tmp_path / "out", "rates")
    last = {name: last_psnr(folder) for name, folder in zip(by_name, folders, strict=True)}
    assert table["preset"].tolist() == ["rates-b", "rates-c", "rates-a"]
    assert table["psnr"].tolist() == pytest.approx([last[name] for name in table["preset"]])
    assert table["TRAIN.OPTIM.LR"].tolist() == ["0.002", "0.002", "0.01"]
    assert table["TRAIN.EMA"].isna().tolist() == [True, False, True]
    assert "psnr spread" not in table
    assert pd.read_csv(tmp_path / "out/table.csv")["preset"].tolist() == table["preset"].tolist()
    assert "note" not in table
    plot = (tmp_path / "out/parallel_coordinates.html").read_text()
    assert '"parcoords"' in plot
    assert "http" not in plot.split("<script")[0]
    figure = parallel_coordinates(table, ["TRAIN.OPTIM.LR", "TRAIN.EMA"], [PSNR])
    rate, average, psnr = figure.data[0].dimensions
    assert (rate.ticktext, rate.values) == (("0.002", "0.01"), (0, 0, 1))  # by size, not as texts
    assert average.values == (-1, 0, -1)
    assert psnr.values == figure.data[0].line.color == tuple(table["psnr"])


def test_with_early_stopping_members_are_ranked_by_the_weights_that_are_published(
    publish, tmp_path
):
    """The member that was the best at its end is not the one with the best weights."""
    train = {"TRAIN": {"EARLY_STOPPING": {"METRIC": "ssim"}}}
    psnr = {"rates-a": [30.0, 33.0, 25.0], "rates-b": [30.0, 31.0, 31.5]}
    folders = []
    for name, values in psnr.items():
        folder = publish(name, **train)
        ssim = [0.5, 0.8, 0.7]
        lines = [
            {"kind": "validation", "step": 10 * index, "psnr": value, "ssim": ssim[index]}
            for index, value in enumerate(values)
        ]
        write_lines(folder / "metrics.jsonl", lines)
        write_json(folder / "run.json", {"status": "finished", "step": 20, "best_step": 10})
        folders.append(folder)
    values = {name: VALUES[name] for name in psnr}
    table = write_sweep(folders, values, tmp_path / "out", "rates").set_index("preset")
    assert table["psnr"].to_dict() == {"rates-a": 33.0, "rates-b": 31.0}
    assert table["ssim"].tolist() == [0.8, 0.8]
    assert table.index.tolist() == ["rates-a", "rates-b"]
    # No validation had a value: the weights are those of the last step.
    for folder in folders:
        write_json(folder / "run.json", {"status": "finished", "step": 20, "best_step": 0})
    table = write_sweep(folders, values, tmp_path / "out", "rates").set_index("preset")
    assert table["psnr"].to_dict() == {"rates-b": 31.5, "rates-a": 25.0}


def last_psnr(folder) -> float:
    table = pd.read_json(folder / "metrics.jsonl", lines=True)
    return float(table["psnr"].dropna().iloc[-1])


def test_means_over_seeds_and_a_note_on_the_test_split(publish, tmp_path):
    names = {"rates-a": 30.0, "rates-a-seed-2": 31.0, "rates-b": 28.0, "rates-b-seed-2": 28.0}
    test = {"DATA": {"VALIDATION": "test"}}
    folders = [publish(name, psnr=psnr, **test) for name, psnr in names.items()]
    values = {name: VALUES[name] for name in ("rates-a", "rates-b")}
    table = write_sweep(folders, values, tmp_path / "out", "rates").set_index("preset")
    first, second = (last_psnr(folder) for folder in folders[:2])
    assert table.at["rates-a", "psnr"] == pytest.approx((first + second) / 2)
    assert table.at["rates-a", "psnr spread"] == pytest.approx(abs(first - second) / 2**0.5)
    assert table.at["rates-b", "psnr spread"] == 0
    assert "chosen on the test split" in (tmp_path / "out/table.html").read_text()
    # Of two seeds one ended without a metric, or was not validated.
    for kind in ("validation", "train"):
        lines = [{"kind": kind, "step": 1, "psnr": 30.0}, {"kind": kind, "step": 2, "psnr": None}]
        write_lines(folders[1] / "metrics.jsonl", lines)
        table = write_sweep(folders, values, tmp_path / "out", "rates").set_index("preset")
        assert table["psnr"].isna().to_dict() == {"rates-b": False, "rates-a": True}
    # A value that is not finite is null.
    for folder in folders:
        nothing = {"kind": "validation", "step": 1, "psnr": None, "ssim": 0.5}
        write_lines(folder / "metrics.jsonl", [nothing])
    table = write_sweep(folders, values, tmp_path / "out", "rates")
    assert "psnr" not in table
    assert table["ssim"].tolist() == [0.5, 0.5]
    values_of_one = {"rates-a": VALUES["rates-a"]}
    message = f"{folders[2]}: run rates-b is no member of sweep rates, .* rates-a; leave"
    with pytest.raises(RunError, match=message):
        write_sweep(folders, values_of_one, tmp_path / "out", "rates")
    with pytest.raises(RunError, match="sweep rates: no run of rates-c"):
        write_sweep(folders, VALUES | {}, tmp_path / "out", "rates")

from __future__ import annotations

import pandas as pd
import pytest

from vrtspike.analysis.evaluation_files import write_summary
from vrtspike.deblurring.analysis.published import (
    PublishedFigure,
    read_published_figures,
    require_published_weights,
    write_leaderboard,
)
from vrtspike.deblurring.evaluation.protocols import PROTOCOLS
from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import ConfigError, RunError


def publish(results, name: str, spikes: bool, **summary):
    """A run and its evaluation, as far as a leaderboard reads them."""
    folder = results / "train" / name
    settings = Settings.model_validate({"MODEL": {"USE_SPIKE": spikes}})
    folder.mkdir(parents=True)
    RunIdentity(name, settings, "dataset.json", f"print-{name}").write(folder)
    write_json(folder / "run.json", {"status": "finished", "parameters": 1234567})
    for log in ("metrics.jsonl", "timing.jsonl", "memory.jsonl"):
        (folder / log).write_text("")
    means = {"psnr": {"restored": 33.125, "restored_error": 0.5}, "ssim": {"restored": 0.95}}
    contents = {"fingerprint": f"print-{name}", "dataset": "gopro_spike", "split": "test"}
    write_summary(
        results / "evaluate" / name / "summary.json",
        {**contents, "protocol": "own", "metrics": means, **summary},
    )
    return folder


def test_every_published_row_has_a_source_and_a_known_protocol():
    rows = read_published_figures().set_index("model")
    assert rows[["source", "protocol", "inputs"]].notna().all(axis=None)
    assert set(rows["protocol"]) <= {*PROTOCOLS, "unknown"} - {"own"}


def test_own_runs_stand_beside_published_rows_of_their_protocol_alone(tmp_path):
    vrt = {"vrt": {"metrics": {"psnr": {"restored": 34.5}, "ssim": {"restored": 0.97}}}}
    folders = [
        publish(tmp_path, "mine", True, other_protocols=vrt),
        publish(tmp_path, "plain", False, warnings=["chosen on the test split"]),
    ]
    output = tmp_path / "leaderboard"
    table = write_leaderboard(folders, output)
    models = {name: list(rows["model"]) for name, rows in table.groupby("protocol", sort=False)}
    assert models == {
        "own": ["mine", "plain"],
        "spkdeblurnet": ["SpkDeblurNet"],
        "ssdm": ["S-SDM (LDN)"],
        "vrt": ["VRT", "mine"],
        "unknown": ["EFNet", "RVRT", "Turtle"],
    }
    own = table[table["protocol"] == "own"].set_index("model")
    assert own["inputs"].to_dict() == {"mine": "RGB and spikes", "plain": "RGB"}
    assert own["note"].to_dict() == {"mine": "", "plain": "chosen on the test split"}
    assert own.loc["mine", ["psnr", "psnr_error", "parameters"]].tolist() == [33.125, 0.5, 1234567]
    stored = pd.read_csv(output / "leaderboard.csv")
    assert stored["psnr"].tolist() == pytest.approx(table["psnr"].tolist())
    markdown = (output / "leaderboard.md").read_text()
    vrt_part = markdown.split("## Protocol vrt")[1].split("## Protocol unknown")[0]
    assert "| VRT | RGB | GoPro | 34.81 |  |  | 0.9724 | 18,320,007 |" in vrt_part
    assert "| mine | RGB and spikes | gopro_spike, test | 34.50 |" in vrt_part
    assert "SpkDeblurNet" not in vrt_part
    latex = (output / "leaderboard.tex").read_text()
    assert latex.count(r"\begin{tabular}{lllrrrrrrll}") == 5
    assert r"mine & RGB and spikes & gopro\_spike, test & 33.12 & 0.50 &  & 0.9500" in latex
    page = (output / "leaderboard.html").read_text()
    assert "do not compare" in page
    assert "is not known here" in page


def test_several_seeds_are_one_row_with_their_spread(tmp_path):
    psnr = {"psnr": {"restored": 33.325, "restored_error": 0.3}, "ssim": {"restored": 0.97}}
    folders = [
        publish(tmp_path, "mine", True),
        publish(tmp_path, "mine-seed-2", True, metrics=psnr, warnings=["chosen"]),
    ]
    table = write_leaderboard(folders, tmp_path / "leaderboard")
    (row,) = table[table["protocol"] == "own"].to_dict("records")
    assert (row["model"], row["note"]) == ("mine", "chosen; mean of 2 seeds")
    figures = [row[name] for name in ("psnr", "psnr_error", "psnr_spread", "ssim")]
    assert figures == pytest.approx([33.225, 0.4, 0.2 / 2**0.5, 0.96])
    folders.append(publish(tmp_path, "mine-seed-3", False))
    with pytest.raises(RunError, match=r"mine-seed-3: MODEL.USE_SPIKE .* only in its seed"):
        write_leaderboard(folders, tmp_path / "leaderboard")


@pytest.mark.parametrize(
    ("found", "within"), [(34.795, True), (34.825, True), (34.785, False), (34.84, False)]
)
def test_the_limit_of_a_reproduction(found, within):
    expected = PublishedFigure(34.81, 11, 1111, 0.02)
    assert expected.is_found(found) is within
    assert ("within the limit of 0.02 dB" in expected.verdict(found)) is within


@pytest.mark.parametrize("path", [None, "weights/absent.pth"])
def test_weights_that_are_missing_are_named_with_their_place(path):
    settings = Settings.model_validate({"MODEL": {"VRT": {"PRETRAINED": path}}})
    with pytest.raises(ConfigError, match=r"no such file: .* 006_VRT.*releases.*DATA\.ROOT"):
        require_published_weights(settings)

"""Own runs beside published results."""

from __future__ import annotations

import math
import re

import pandas as pd
import pytest

from preset_step_cost import step_cost
from tests.deblurring.leaderboard_runs import publish
from vrtspike.deblurring.leaderboard import write_leaderboard
from vrtspike.deblurring_settings.schema import load_deblurring_preset
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import RunError


def test_own_runs_stand_beside_published_rows_of_their_protocol_alone(tmp_path):
    results = {"metrics": {"psnr": {"restored": 34.5}, "ssim": {"restored": 0.97}}}
    folders = [
        publish(tmp_path, "mine", True, other_protocols={"vrt": results, "basicsr": results}),
        publish(tmp_path, "plain", False, warnings=["of other data than it was trained on"]),
    ]
    output = tmp_path / "leaderboard"
    table = write_leaderboard(folders, output)
    models = {name: list(rows["model"]) for name, rows in table.groupby("protocol", sort=False)}
    assert models == {
        "basicsr": ["NAFNet, width 64", "NAFNet, width 32", "mine"],
        "own": ["mine", "plain"],
        "spkdeblurnet": ["SpkDeblurNet"],
        "ssdm": ["S-SDM (LDN)"],
        "vrt": ["VRT", "mine"],
        "other": [
            "MAENet",
            "BSSTNet",
            "Shift-Net+",
            "EFNet",
            "RVRT",
            "Turtle",
            "SpikeGen",
        ],
    }
    own_protocol = table[table["protocol"] == "own"].set_index("model")
    assert own_protocol["inputs"].to_dict() == {"mine": "RGB and spikes", "plain": "RGB"}
    assert own_protocol["note"].to_dict() == {
        "mine": "",
        "plain": "of other data than it was trained on",
    }
    assert own_protocol.loc["mine", ["psnr", "psnr_error", "parameters"]].tolist() == [
        33.125,
        0.5,
        1234567,
    ]
    stored = pd.read_csv(output / "leaderboard.csv")
    assert stored["psnr"].tolist() == pytest.approx(table["psnr"].tolist())
    markdown = (output / "leaderboard.md").read_text()
    vrt_part = markdown.split("## Protocol vrt")[1].split("## Other protocols")[0]
    assert "| VRT | 34.81 | 0.9724 | GoPro | RGB | 18,320,007 |" in vrt_part
    assert "| mine | 34.50 | 0.9700 | gopro_spike, test | RGB and spikes |" in vrt_part
    assert "SpkDeblurNet" not in vrt_part
    assert "- plain: of other data than it was trained on.\n" in markdown
    assert max(len(line) for line in markdown.splitlines() if line.startswith("|")) < 120
    others = markdown.split("## Other protocols")[1].split("## Sources")[0]
    assert "| MAENet | 36.07 | 0.9760 | GoPro | RGB and events | 13,900,000 |" in others
    assert "<u>" not in others
    assert "- SpikeGen: S-SDM's frames with spikes of threshold 1" in others
    assert "- Turtle: Ghasemabadi et al." in markdown
    assert "https://arxiv.org/abs/2410.03936." in markdown
    page = (output / "leaderboard.html").read_text()
    assert "do not compare" in page
    assert "is how these were measured" in page
    assert page.count("<th") == 6 * 7 + page.count("<thead")
    assert "`" not in page
    (note,) = re.findall("<li>SpikeGen: .*</li>", page)
    assert note.count("<li>") == 1
    assert re.search(r'<p>Turtle: Ghasemabadi .* <a href="https://arxiv.org/abs/2410.03936"', page)


def test_latex_has_few_columns_and_marks_the_best_of_each_data_set(tmp_path):
    def results(psnr: float, ssim: float) -> dict[str, dict[str, float]]:
        return {"psnr": {"restored": psnr}, "ssim": {"restored": ssim}}

    folders = [
        publish(tmp_path, "a_1", True, metrics=results(33.0, 0.9501)),
        publish(tmp_path, "b", True, metrics=results(32.0, 0.95014)),
        publish(tmp_path, "c", True, metrics=results(31.0, 0.94)),
        publish(tmp_path, "other", True, metrics=results(39.0, 0.99), dataset="demo"),
    ]
    write_leaderboard(folders, tmp_path / "board")
    latex = (tmp_path / "board/leaderboard.tex").read_text()
    assert latex.count(r"\toprule") == latex.count(r"\begin{tabular}") == 6
    lines = latex.splitlines()
    assert r"a\_1 & \textbf{33.00} & \textbf{0.9501} & gopro\_spike, test & RGB and spikes" in latex
    assert r"b & \underline{32.00} & \textbf{0.9501} & gopro" in latex
    assert r"c & 31.00 & \underline{0.9400} & gopro" in latex
    assert r"other & 39.00 & 0.9900 & demo, test" in latex  # alone on its data
    assert max(line.count("&") for line in lines) == 6
    page = (tmp_path / "board/leaderboard.html").read_text()
    assert ">a_1</td><td><b>33.00</b></td><td><b>0.9501</b></td>" in page
    assert ">b</td><td><u>32.00</u></td><td><b>0.9501</b></td>" in page
    assert ">c</td><td>31.00</td><td><u>0.9400</u></td>" in page
    assert ">other</td><td>39.00</td><td>0.9900</td>" in page
    write_leaderboard(folders, tmp_path / "wide", all_columns=True)
    wide = (tmp_path / "wide/leaderboard.tex").read_text()
    assert "this project, run print-b" in wide
    assert "| standard error, dB |" in (tmp_path / "wide/leaderboard.md").read_text()


def test_results_that_are_no_test_have_a_table_of_their_own(tmp_path):
    better = {"psnr": {"restored": 40.0}, "ssim": {"restored": 0.99}}
    warnings = {
        "leaked": ["not a test: 2 of 3 test sequences hold frames that were trained on"],
        "chosen": ["chosen on the test split: validation looked at it during the training"],
    }
    folders = [publish(tmp_path, "fair", True)]
    for name, texts in warnings.items():
        folders.append(
            publish(tmp_path, name, True, metrics=better, warnings=texts, dataset="another")
        )
    table = write_leaderboard(folders, tmp_path / "board")
    assert table["counts"].tolist() == [True] * (len(table) - 2) + [False] * 2
    for kind in ("md", "tex", "html"):
        text = (tmp_path / f"board/leaderboard.{kind}").read_text()
        ranked, apart = text.split("Not counted")
        assert "fair" in ranked
        for name, (warning,) in warnings.items():
            assert warning in text
            assert f"{name} &" not in ranked
            assert f"| {name} |" not in ranked
            assert f">{name}<" not in ranked
            assert name in apart
        assert "40.00" in apart
        assert "40.00" not in ranked


def test_the_arithmetic_of_a_known_model_is_filled_in(tmp_path, repository):
    settings = load_deblurring_preset(repository / "config/presets/light_demo.yaml")
    folder = publish(tmp_path, "mine", True)
    RunIdentity("mine", settings, "dataset.json", "print-mine").write(folder)
    publish(tmp_path, "unknown", True)
    table = write_leaderboard([folder, tmp_path / "train/unknown"], tmp_path / "board")
    cost, _ = step_cost(settings, 96)
    frames = settings.TRAIN.BATCH_SIZE * settings.DATA.CLIP_LEN
    counted = cost.forward_flop / frames * (256 / 96) ** 2
    gflops = table.set_index("model")["gflops"]
    assert gflops["mine"] == pytest.approx(counted / 1e9, rel=0.02)
    assert f"| {gflops['mine']:.1f} |" in (tmp_path / "board/leaderboard.md").read_text()


def test_several_seeds_are_one_row_with_their_spread(tmp_path):
    psnr = {"psnr": {"restored": 33.325, "restored_error": 0.3}, "ssim": {"restored": 0.97}}
    folders = [
        publish(tmp_path, "mine", True),
        publish(tmp_path, "mine-seed-2", True, metrics=psnr, warnings=["chosen"]),
    ]
    table = write_leaderboard(folders, tmp_path / "leaderboard")
    (row,) = table[table["protocol"] == "own"].to_dict("records")
    assert (row["model"], row["note"]) == ("mine", "chosen; mean of 2 seeds")
    results = [row[name] for name in ("psnr", "psnr_spread", "ssim")]
    assert results == pytest.approx([33.225, 0.2 / 2**0.5, 0.96])
    assert math.isnan(row["psnr_error"])  # it does not follow from those of the seeds
    folders.append(publish(tmp_path, "mine-seed-3", False))
    with pytest.raises(RunError, match=r"mine-seed-3: MODEL.USE_SPIKE .* only in its seed"):
        write_leaderboard(folders, tmp_path / "leaderboard")

"""What the spikes are worth: figures of the table, and runs that cannot be compared."""

from __future__ import annotations

import pandas as pd
import pytest

from vrtspike.analysis.ablation import compare_variants
from vrtspike.config.loading import settings_from
from vrtspike.config.merging import overlay, parse_overrides
from vrtspike.config.reading import Document
from vrtspike.config.variants import Ablation, Variant
from vrtspike.errors import ConfigError, RunError
from vrtspike.files import read_json, write_json
from vrtspike.runs.identity import RunIdentity
from vrtspike.sst.settings import SSTSettings

NAMES = ("{}", "{}-without-spikes", "{}-shuffled-spikes")
MODELS = ({}, {"USE_SPIKE": False}, {"SPIKE_ORDER": "shuffled"})
SUMMARY = {"dataset_digest": "d", "split": "test", "scale": 1.0, "tile": {"SIZE": 64}}


@pytest.fixture
def ablation(publish, tmp_path):
    """Folders of the three runs of a preset and of their evaluations."""

    def make(preset, psnr, ssim, **sections):
        runs, evaluations = [], []
        for number, (pattern, model) in enumerate(zip(NAMES, MODELS, strict=True)):
            name = pattern.format(preset)
            runs.append(publish(name, MODEL=model, **sections))
            record = {"step": 5, "parameters": 1000 - number}
            write_json(runs[-1] / "run.json", read_json(runs[-1] / "run.json") | record)
            metrics = {
                "psnr": {
                    "blurry": 20.0,
                    "restored": psnr[number],
                    "gain": psnr[number] and psnr[number] - 20,
                },
                "ssim": {
                    "blurry": 0.5,
                    "restored": ssim[number],
                    "gain": ssim[number] - 0.5,
                },
            }
            fingerprint = f"fingerprint of {name}"
            summary = {"fingerprint": fingerprint, "metrics": metrics, **SUMMARY}
            evaluations.append(tmp_path / "evaluate" / name)
            write_json(evaluations[-1] / "summary.json", summary)
        return runs, evaluations

    return make


def change(path, **values):
    write_json(path, read_json(path) | values)


def test_three_rows_for_each_preset_in_whatever_order_runs_are_given(ablation, tmp_path):
    one = ablation("one", [30.0, 27.0, 28.5], [0.9, 0.8, 0.85])
    two = ablation("two", [25.0, 26.0, 25.25], [0.7, 0.75, 0.7])
    runs, evaluations = (one[i] + two[i] for i in range(2))
    table, sentences = compare_variants(runs[::-1], evaluations, tmp_path / "out")
    assert table["preset"].tolist() == ["two"] * 3 + ["one"] * 3
    assert table["model"].tolist() == ["spikes", "without spikes", "shuffled spikes"] * 2
    first = table[table["preset"] == "one"]
    assert first["psnr blurry"].tolist() == [20, 20, 20]
    assert first["psnr restored"].tolist() == [30, 27, 28.5]
    assert first["psnr gain"].tolist() == [10, 7, 8.5]
    assert first["psnr difference"].tolist() == [0, -3, -1.5]
    assert first["ssim difference"].tolist() == pytest.approx([0, -0.1, -0.05])
    assert first["steps"].tolist() == [5, 5, 5]
    assert first["parameters"].tolist() == [1000, 999, 998]
    assert table["psnr difference"].tolist()[:3] == [0, 1, 0.25]
    assert sentences == [
        "two: without spikes PSNR is 1.00 dB better than with them, with shuffled spikes 0.25 dB "
        "better. This model makes no use of which spikes belong to which frame.",
        "one: without spikes PSNR is 3.00 dB worse than with them, with shuffled spikes 1.50 dB "
        "worse.",
    ]


def test_table_and_page_hold_the_same(ablation, tmp_path):
    table, (sentence,) = compare_variants(
        *ablation("one", [30.0, 27.0, 28.5], [0.9, 0.8, 0.85]), tmp_path / "out"
    )
    stored = pd.read_csv(tmp_path / "out/table.csv")
    pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    page = (tmp_path / "out/table.html").read_text()
    for cell in ("-3.00", "-1.50", "+10.00", "-0.0500", "1,000"):
        assert f"<td>{cell}</td>" in page
    assert page.index("</table>") < page.index(f"<p>{sentence}</p>")
    assert page.count('<tr class="strong">') == 1


def test_figures_that_are_not_finite_are_left_out(ablation, tmp_path):
    folders = ablation("one", [30.0, None, 28.5], [0.9, 0.8, 0.85])
    table, sentences = compare_variants(*folders, tmp_path / "out")
    assert table["psnr difference"].isna().tolist() == [False, True, False]
    assert table["ssim difference"].notna().all()
    assert sentences == ["one: there is no PSNR to compare."]


def test_differences_say_what_is_better_where_lower_is_better(ablation, tmp_path):
    runs, evaluations = ablation("one", [30.0, 27.0, 28.5], [0.9, 0.8, 0.85])
    for folder, lpips in zip(evaluations, [0.125, 0.25, 0.0625], strict=True):
        metrics = {"lpips": {"blurry": 0.5, "restored": lpips, "gain": 0.5 - lpips}}
        change(folder / "summary.json", metrics=metrics)
    table, sentences = compare_variants(runs, evaluations, tmp_path / "out")
    assert [name for name in table if "restored" in name] == ["lpips restored"]
    assert table["lpips difference"].tolist() == [0, -0.125, 0.0625]
    assert sentences == [
        "one: without spikes LPIPS is 0.1250 worse than with them, with shuffled spikes 0.0625 "
        "better. This model makes no use of which spikes belong to which frame."
    ]


def test_a_missing_run_is_named(ablation, tmp_path):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    with pytest.raises(RunError, match="ablation of one needs the run one-shuffled-spikes; found"):
        compare_variants(runs[:2], evaluations, tmp_path / "out")
    with pytest.raises(RunError, match="ablation of one needs the run one; found: one-w"):
        compare_variants(runs[1:], evaluations, tmp_path / "out")


def test_two_runs_of_one_name_are_refused(ablation, tmp_path):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    with pytest.raises(RunError, match=r"different names, found: one, one-without.*, one$"):
        compare_variants([*runs, runs[0]], evaluations, tmp_path / "out")


def test_a_missing_evaluation_is_named(ablation, tmp_path):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    message = r"run one-without-spikes \(fingerprint of .*\): no evaluation"
    with pytest.raises(RunError, match=message):
        compare_variants(runs, [evaluations[0], evaluations[2]], tmp_path / "out")


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("TRAIN", {"MAX_STEPS": 6}, "TRAIN.MAX_STEPS 6, expected null"),
        ("MODEL", {"USE_SPIKE": True}, "MODEL.SPIKE_ORDER .*recorded.*, expected .*shuffled"),
    ],
)
def test_runs_that_differ_in_more_than_spikes_are_refused(
    ablation, tmp_path, section, values, message
):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    settings = read_json(runs[2] / "settings.json")
    if section == "MODEL":
        settings["settings"]["MODEL"]["SPIKE_ORDER"] = "recorded"
    settings["settings"][section] |= values
    write_json(runs[2] / "settings.json", settings)
    with pytest.raises(RunError, match=rf"run one-shuffled-spikes has {message}.*run one "):
        compare_variants(runs, evaluations, tmp_path / "out")


def test_runs_on_other_data_are_refused(ablation, tmp_path):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    change(runs[1] / "settings.json", dataset_digest="other")
    with pytest.raises(RunError, match=r"run one-without-spikes has data set .*other"):
        compare_variants(runs, evaluations, tmp_path / "out")


@pytest.mark.parametrize("key", ["dataset_digest", "split", "scale", "tile"])
def test_other_evaluations_are_refused(ablation, tmp_path, key):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    change(evaluations[2] / "summary.json", **{key: {"SIZE": 32} if key == "tile" else 2})
    message = rf"evaluation of run one-shuffled-spikes has {key}.*, that of run one "
    with pytest.raises(RunError, match=message):
        compare_variants(runs, evaluations, tmp_path / "out")


def test_settings_that_change_no_result_may_differ(ablation, tmp_path):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    settings = read_json(runs[1] / "settings.json")
    settings["settings"]["DATALOADER"]["TOTAL_WORKERS"] = 3
    write_json(runs[1] / "settings.json", settings)
    table, _ = compare_variants(runs, evaluations, tmp_path / "out")
    assert len(table) == 3


def test_a_preset_without_spikes_is_refused(ablation, tmp_path):
    runs, evaluations = ablation("one", [1, 2, 3], [1, 2, 3])
    settings = read_json(runs[0] / "settings.json")
    settings["settings"]["MODEL"]["USE_SPIKE"] = False
    write_json(runs[0] / "settings.json", settings)
    with pytest.raises(ConfigError, match=r"preset one: MODEL\.USE_SPIKE is false"):
        compare_variants(runs, evaluations, tmp_path / "out")


@pytest.fixture
def tides(monkeypatch):
    """An ablation of another problem: three variants of a forecast."""
    names = {"dry": "DATA.SEQ_LEN=3", "short": "DATA.LEAD=1", "bare": "MODEL.NUM_LAYERS=1"}
    variants = [Variant(n, f"-{n}", key, f"being {n}", f"No {n}!") for n, key in names.items()]
    question = Ablation("Tides", "wet", "wet", "Of tides.", {"DATA.SEQ_LEN": 12}, tuple(variants))
    monkeypatch.setattr(SSTSettings, "ablation", question)
    return names


def forecasts(folder, names, rmse):
    """Result folders of a preset and its variants, whose evaluations know no frames."""
    runs, evaluations = [], []
    for (name, key), error in zip({"": "SEED=123", **names}.items(), rmse, strict=True):
        preset = f"sea-{name}" if name else "sea"
        settings = settings_from(overlay(Document({"TASK": "sst"}), parse_overrides([key])))
        runs.append(folder / "train" / preset)
        evaluations.append(folder / "evaluate" / preset)
        RunIdentity(preset, settings, "dataset.json", preset, "d").write(runs[-1])
        write_json(runs[-1] / "run.json", {"status": "finished", "step": 5, "parameters": 10})
        figures = {"persistence": 1.0, "forecast": error, "gain": 1.0 - error}
        summary = {"task": "sst", "fingerprint": preset, "metrics": {"rmse": figures}}
        write_json(evaluations[-1] / "summary.json", summary)
    return runs, evaluations


def test_ablations_of_two_problems_stand_in_one_table(ablation, tides, tmp_path):
    one = ablation("one", [30.0, 27.0, 28.5], [0.9, 0.8, 0.85])
    sea = forecasts(tmp_path, tides, [0.5, 0.75, 0.25, 0.5])
    runs, evaluations = (one[i] + sea[i] for i in range(2))
    table, _ = compare_variants(runs, evaluations, tmp_path / "out")
    assert table["model"].tolist() == [
        *("spikes", "without spikes", "shuffled spikes", "wet", "dry", "short", "bare")
    ]
    assert table["rmse difference"].tolist()[3:] == [0, -0.25, 0.25, 0]
    assert table["rmse difference"].isna().tolist() == [True] * 3 + [False] * 4
    page = (tmp_path / "out/table.html").read_text()
    assert page.count('<tr class="strong">') == 2
    assert "What the spikes are worth; Tides" in page
    assert "Of tides." in page


def test_a_sentence_tells_each_variant(tides, tmp_path):
    folders = forecasts(tmp_path, tides, [0.5, 0.75, 0.25, 0.5])
    _, sentences = compare_variants(*folders, tmp_path / "out")
    assert sentences == [
        "sea: being dry RMSE is 0.250 K worse than wet, being short 0.250 K better, being bare "
        "0.000 K better. No short! No bare!"
    ]


def test_a_problem_without_ablation_is_refused(tmp_path):
    folders = forecasts(tmp_path, {}, [0.5])
    with pytest.raises(ConfigError, match="preset sea: TASK is sst, which has no ablation"):
        compare_variants(*folders, tmp_path / "out")

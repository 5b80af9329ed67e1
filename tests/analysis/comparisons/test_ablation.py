"""Ablation of the spikes: values of the table, and runs that cannot be compared."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.analysis.evaluated_runs import change, evaluated, means, summary_of
from vrtspike.analysis.comparisons.ablation import compare_variants
from vrtspike.config.ablations import Ablation, Variant
from vrtspike.io.files import write_json
from vrtspike.runs.identity import RunIdentity
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import RunError

NAMES = ("{}", "{}-without-spikes", "{}-shuffled-spikes")
MODELS = ({}, {"USE_SPIKE": False}, {"SPIKE_ORDER": "shuffled"})


@pytest.fixture
def ablation(publish):
    """Folders of the three runs of a preset, their evaluations beside."""

    def make(preset="one", psnr=(30.0, 27.0, 28.5), ssim=(0.9, 0.8, 0.85)):
        runs = []
        for number, (pattern, model) in enumerate(zip(NAMES, MODELS, strict=True)):
            name = pattern.format(preset)
            runs.append(publish(name, MODEL=model))
            change(runs[-1] / "run.json", step=5, parameters=1000 - number)
            metrics = {"psnr": means(20.0, psnr[number]), "ssim": means(0.5, ssim[number])}
            evaluated(runs[-1], metrics)
        return runs

    return make


def test_three_rows_for_each_preset_in_whatever_order_runs_are_given(ablation, tmp_path):
    one = ablation()
    two = ablation("two", [25.0, 26.0, 25.25], [0.7, 0.75, 0.7])
    table, sentences = compare_variants([*one, *two][::-1], tmp_path / "out")
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
        "two: without spikes PSNR is 1.00 dB better than with them.",
        "two: with shuffled spikes PSNR is 0.25 dB better than with them.",
        "one: without spikes PSNR is 3.00 dB worse than with them.",
        "one: with shuffled spikes PSNR is 1.50 dB worse than with them.",
    ]


def test_means_over_seeds_and_differences_below_their_spread(publish, tmp_path):
    psnr = {"": (30.0, 31.0), "-without-spikes": (27.0, 28.0), "-shuffled-spikes": (30.25, 30.25)}
    runs = []
    for (suffix, values), model in zip(psnr.items(), MODELS, strict=True):
        for number, value in enumerate(values):
            name = f"one{suffix}" + (f"-seed-{number + 1}" if number else "")
            runs.append(publish(name, MODEL=model, SEED=3 + number))
            evaluated(runs[-1], {"psnr": means(20.0, value)})
    table, sentences = compare_variants(runs[::-1], tmp_path / "out")
    assert table["seeds"].tolist() == [2, 2, 2]
    assert table["psnr restored"].tolist() == [30.5, 27.5, 30.25]
    assert table["psnr spread"].tolist() == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert table["psnr difference"].tolist() == [0, -3, -0.25]
    assert sentences == [
        "one: without spikes PSNR is 3.00 dB worse than with them.",
        "one: with shuffled spikes PSNR is 0.25 dB worse than with them (less than the spread over "
        "seeds, 0.71 dB).",
    ]
    assert "standard deviation over seeds" in (tmp_path / "out/table.html").read_text()
    with pytest.raises(RunError, match="needs the run one-shuffled-spikes-seed-2; found"):
        compare_variants(runs[:-1], tmp_path / "out")
    change(runs[1] / "settings.json", "TRAIN", MAX_STEPS=7)
    with pytest.raises(RunError, match=r"one-seed-2: TRAIN.MAX_STEPS is 7.* only in its seed"):
        compare_variants(runs, tmp_path / "out")


@pytest.mark.parametrize(
    ("psnr", "end"),
    [
        # A gain of one seed, or one below the spread over seeds, may be chance.
        ([(30.0,), (27.0,), (30.0004,)], "PSNR is the same as with them."),
        ([(30.0,), (27.0,), (31.0,)], "PSNR is 1.00 dB better than with them."),
        (
            [(30.0, 31.0), (27.0, 27.0), (31.0, 31.0)],
            "0.50 dB better than with them (less than the spread over seeds, 0.71 dB).",
        ),
        (
            [(30.0, 31.0), (27.0, 27.0), (31.25, 31.25)],
            "0.75 dB better than with them. This model makes no use of which spikes belong to "
            "which frame.",
        ),
    ],
)
def test_a_conclusion_needs_more_than_the_spread_over_seeds(publish, tmp_path, psnr, end):
    runs = []
    for pattern, values, model in zip(NAMES, psnr, MODELS, strict=True):
        for number, value in enumerate(values):
            name = pattern.format("one") + (f"-seed-{number + 1}" if number else "")
            runs.append(publish(name, MODEL=model, SEED=3 + number))
            evaluated(runs[-1], {"psnr": means(20.0, value)})
    _, (_, sentence) = compare_variants(runs, tmp_path / "out")
    assert sentence.endswith(end)


def test_table_and_page_hold_the_same(ablation, tmp_path):
    table, (sentence, _) = compare_variants(ablation(), tmp_path / "out")
    stored = pd.read_csv(tmp_path / "out/table.csv")
    pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    assert [*table][:4] == ["preset", "model", "psnr restored", "psnr difference"]
    page = (tmp_path / "out/table.html").read_text()
    assert "One seed each" in page
    for cell in ("-3.00", "-1.50", "+10.00", "-0.0500", "1,000"):
        assert f"<td>{cell}</td>" in page
    assert page.index("</table>") < page.index(f"<p>{sentence}</p>")
    assert page.count('<tr class="strong">') == 1


@pytest.mark.parametrize(
    ("metric", "restored", "differences", "without"),
    [
        ("psnr", (30.0, None, 30.25), [0, None, 0.25], "there is no PSNR to compare."),
        ("lpips", (0.5, 0.75, 0.25), [0, -0.25, 0.25], "LPIPS is 0.2500 worse than with them."),
    ],
)
def test_gains_are_positive(ablation, tmp_path, metric, restored, differences, without):
    runs = ablation()
    for run, value in zip(runs, restored, strict=True):
        change(summary_of(run), metrics={metric: means(0.5, value, loss=metric == "lpips")})
    table, sentences = compare_variants(runs, tmp_path / "out")
    assert [name for name in table if "restored" in name] == [f"{metric} restored"]
    difference = table[f"{metric} difference"]
    assert [None if pd.isna(value) else value for value in difference] == differences
    assert sentences[0] == f"one: without spikes {without}"
    assert sentences[1].endswith("better than with them.")


@pytest.mark.parametrize(
    ("presets", "message"),
    [
        ([0, 1], "ablation of one needs the run one-shuffled-spikes; found"),
        ([1, 2], "ablation of one needs the run one; found: one-w"),
        ([0, 1, 2, 0], r"different names, found: one, one-without.*, one$"),
    ],
)
def test_missing_and_repeated_runs_are_named(ablation, tmp_path, presets, message):
    runs = ablation()
    with pytest.raises(RunError, match=message):
        compare_variants([runs[n] for n in presets], tmp_path / "out")


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("TRAIN", {"MAX_STEPS": 6}, "TRAIN.MAX_STEPS is 6, expected null"),
        ("MODEL", {"SPIKE_ORDER": "recorded"}, "MODEL.SPIKE_ORDER .*recorded.*, .*shuffled"),
        (None, {"dataset_digest": "other"}, "data set .*other"),
    ],
)
def test_runs_that_differ_in_more_than_spikes_are_refused(
    ablation, tmp_path, section, values, message
):
    runs = ablation()
    # Settings without effect on the result may differ.
    change(runs[1] / "settings.json", "DATALOADER", TOTAL_WORKERS=3)
    assert len(compare_variants(runs, tmp_path / "out")[0]) == 3
    change(runs[2] / "settings.json", section, **values)
    with pytest.raises(RunError, match=rf"run one-shuffled-spikes: {message}.*run one "):
        compare_variants(runs, tmp_path / "out")


@pytest.mark.parametrize("key", ["dataset_digest", "split", "tile"])
def test_other_evaluations_are_refused(ablation, tmp_path, key):
    runs = ablation()
    change(summary_of(runs[2]), **{key: {"SIZE": 32} if key == "tile" else 2})
    message = rf"evaluation of run one-shuffled-spikes has {key}.*, that of run one "
    with pytest.raises(RunError, match=message):
        compare_variants(runs, tmp_path / "out")


@pytest.fixture
def tides(monkeypatch, tmp_path):
    """Runs of an ablation of another task, whose evaluations know no frames."""
    short = Variant("short", "-short", "DATA.LEAD=1", "being short", "No short!")
    question = Ablation("Tides", "wet", "wet", "Of tides.", {"DATA.SEQ_LEN": 12}, (short,))
    monkeypatch.setattr(SSTSettings, "ablation", question)
    runs = []
    for preset, data, error in (("sea", {}, 0.5), ("sea-short", {"LEAD": 1}, 0.25)):
        settings = SSTSettings.model_validate({"TASK": "sst", "DATA": data})
        runs.append(tmp_path / "train" / preset)
        RunIdentity(preset, settings, "dataset.json", preset, "d").write(runs[-1])
        write_json(runs[-1] / "run.json", {"status": "finished", "step": 5, "parameters": 10})
        metrics = {"rmse": {"persistence": 1.0, "forecast": error, "gain": 1.0 - error}}
        summary = {"task": "sst", "fingerprint": preset, "metrics": metrics}
        write_json(summary_of(runs[-1]), summary)
    return runs


def test_ablations_of_two_tasks_stand_in_one_table(ablation, tides, tmp_path):
    table, sentences = compare_variants([*ablation(), *tides], tmp_path / "out")
    assert table["model"].tolist() == [
        *("spikes", "without spikes", "shuffled spikes", "wet", "short")
    ]
    assert table["rmse difference"].fillna(9).tolist() == [9, 9, 9, 0, 0.25]
    assert sentences[2:] == ["sea: being short RMSE is 0.250 K better than wet."]
    page = (tmp_path / "out/table.html").read_text()
    assert page.count('<tr class="strong">') == 2
    assert "What the spikes are worth; Tides" in page
    assert "Of tides." in page


def test_runs_chosen_on_the_test_split_are_named(ablation, tmp_path):
    runs = ablation()
    for run in runs[:2]:
        change(summary_of(run), warnings=["chosen on the test split"])
    compare_variants(runs, tmp_path / "out")
    page = (tmp_path / "out/table.html").read_text()
    assert "one, one-without-spikes: chosen on the test split." in page
    notes = pd.read_csv(tmp_path / "out/table.csv", keep_default_na=False)["note"].tolist()
    assert notes == ["chosen on the test split"] * 2 + [""] * (len(notes) - 2)

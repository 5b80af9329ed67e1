from __future__ import annotations

from tests.reporting.results import make_evaluation, make_run
from vrtspike.files import read_json, write_json
from vrtspike.reporting.runs import read_run
from vrtspike.reporting.verdict import verdict


def run(results, name="a", evaluated=True, settings=None, **evaluation):
    make_run(results, name, **(settings or {}))
    if evaluated:
        make_evaluation(results, name, **evaluation)
    return read_run(results, name, results)


def test_one_sentence_says_what_came_out(tmp_path):
    said = verdict([run(tmp_path)])
    assert said.text == (
        "Preset a takes 6 frames of data set gopro from 18.50 dB (blurry) to 22.50 dB (restored): "
        "a gain of 4.00 dB, at commit 01234567."
    )
    assert [words.text for words in said.sentence if words.strong] == [
        "18.50 dB",
        "22.50 dB",
        "4.00 dB",
    ]
    assert said.facts == (
        "PSNR, mean over 2 sequences of split test",
        "spikes alone 15.00 dB, in grey",
        "LPIPS 0.5000 → 0.2500",
    )


def test_a_loss_is_called_one(tmp_path):
    assert "a loss of 2.00 dB" in verdict([run(tmp_path, gain=-2.0)]).text


def test_of_several_runs_the_best_is_named(tmp_path):
    figures = {"blurry": 18.5, "restored": 23.0, "gain": 4.5}
    runs = [run(tmp_path), run(tmp_path, "b", metrics={"psnr": figures}), run(tmp_path, "c", False)]
    said = verdict(runs)
    assert said.text.startswith("Preset b, best of 2, takes 6 frames")
    assert "23.00 dB" in said.text


def test_the_best_is_the_lowest_where_lower_is_better(tmp_path):
    metrics = [{"lpips": {"blurry": 0.5, "restored": r, "gain": 0.5 - r}} for r in (0.1, 0.2)]
    runs = [run(tmp_path, n, metrics=m, worst=[]) for n, m in zip("ab", metrics, strict=True)]
    assert verdict(runs).text == (
        "Preset a, best of 2, takes 6 frames of data set gopro from LPIPS 0.5000 (blurry) to "
        "0.1000 (restored, lower is better): a gain of 0.4000, at commit 01234567."
    )


def test_figures_of_other_test_frames_do_not_compare(tmp_path):
    figures = {"psnr": {"blurry": 30.0, "restored": 40.0, "gain": 10.0}}
    others = {
        "data": {"data": "reds"},
        "split": {"split": "val"},
        "blur": {"blur_dir": "blur_gamma"},
        "scale": {"scales": (0.5,)},
        "frames": {"sequences": ("GOPR1",)},
    }
    runs = [run(tmp_path)] + [
        run(tmp_path, name, metrics=figures, **other) for name, other in others.items()
    ]
    said = verdict(runs)
    assert said.text.startswith("Preset a takes 6 frames")
    assert said.facts[-1] == (
        "not compared, of other test frames or metrics: data, split, blur, scale, frames"
    )


def test_no_change_is_called_neither_gain_nor_loss(tmp_path):
    figures = {"psnr": {"blurry": 30.0, "restored": 29.999, "gain": -0.001}}
    said = verdict([run(tmp_path, metrics=figures)])
    assert "to 30.00 dB (restored): no change, at" in said.text


def test_code_that_is_not_that_of_the_commit_says_so(tmp_path):
    for name, changes in {"a": {"git": True}, "b": {"code_changed": ["x.py"]}}.items():
        make_run(tmp_path, name)
        path = tmp_path / "train" / name / "run.json"
        record = read_json(path)
        record["environment"]["git"]["changed"] = changes.get("git", False)
        record["code_changed"] = changes.get("code_changed", [])
        write_json(path, record)
        make_evaluation(tmp_path, name)
        words = verdict([read_run(tmp_path, name, tmp_path)]).text
        assert words.endswith("at commit 01234567 with changes.")


def test_a_model_without_spikes_says_so(tmp_path):
    settings = {"MODEL": {"USE_SPIKE": False}}
    said = verdict([run(tmp_path, spikes=False, sequences=("one",), settings=settings)])
    assert said.facts[0] == "PSNR, mean over 1 sequence of split test"
    assert said.facts[-1] == "the model takes no spikes"


def test_without_figures_it_says_what_was_trained(tmp_path):
    alone = run(tmp_path, evaluated=False)
    said = verdict([alone])
    assert said.text == (
        "Preset a was trained for 40 steps, at commit 01234567; "
        "there are no figures of test frames."
    )
    assert said.facts == ("a: not evaluated",)
    none = {"psnr": {"blurry": None, "restored": None, "gain": None, "reason": "equal"}}
    said = verdict([alone, run(tmp_path, "b", metrics=none)])
    assert said.text == "Presets a, b were trained; there are no figures of test frames."
    assert said.facts == ("a: not evaluated", "b: the evaluation has no finite figure")

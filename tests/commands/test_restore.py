"""``vrtspike restore`` as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from vrtspike.commands.main import make_parser, run_command
from vrtspike.commands.restore import request_of
from vrtspike.io.files import file_digest
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.loading import load
from vrtspike.restoration.restore_command import ModelSource, open_device
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs import named_models
from vrtspike.runs.published import read_published
from vrtspike.system.errors import UserError


@pytest.fixture
def call(small_run, tmp_path, capsys):
    """Run the command on a folder with a model; gives its status and what it printed."""
    sequence = small_run.raw / "test" / "b"

    def run(*options: object, frames=sequence / "blur"):
        words = ["restore", small_run.train, frames, "-o", tmp_path / "out", *options]
        status = run_command([*map(str, words), "--device", "cpu"])
        return status, capsys.readouterr()

    return run


def test_it_prints_metrics_and_where_things_lie(small_run, call, tmp_path):
    sequence = small_run.raw / "test" / "b"
    spikes = ("--spikes", sequence / "spike")
    status, shown = call(*spikes, "--sharp", sequence / "sharp", "--video")
    assert status == 0
    record = json.loads((tmp_path / "out/restore.json").read_text())
    frames = record["frames"]
    written = {name.partition("/")[0] for name in record["written"]}
    assert written == {"restored", "restored.mp4", "index.html"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*written, "restore.json"}
    before, after = (sum(frame[name] for frame in frames) / 5 for name in ("psnr_blur", "psnr"))
    lines = shown.out.splitlines()
    assert lines[0] == f"PSNR, dB, mean: {before:.2f} -> {after:.2f}"
    assert lines[1].startswith("SSIM, mean: 0.")
    assert any(line.startswith("Blurred again, dB, mean: ") for line in lines)
    source, cost, page = lines[-3:]
    assert source == "spikes: recorded"
    assert page == f"page: {tmp_path}/out/index.html"
    assert (tmp_path / "out/index.html").is_file()
    assert cost.startswith("5 frames, ")
    assert "(whole frames, float32, 1.20 x computed)" in cost
    assert (tmp_path / "out/restored.mp4").is_file()
    shown = call(*spikes)[1].out
    assert shown.startswith("5 of 5 frames are there already, restored before\n")
    assert "Correlation with the spikes, mean: " in shown


def test_every_option_reaches_the_request():
    def request(*options: str) -> RestoreRequest:
        words = ["restore", "model", "blur", "-o", "out", *options]
        return request_of(make_parser().parse_args(words))

    recorded = request(
        *("--spikes", "spike", "--sensor", "24", "32", "--layout", "spk_gopro"),
        *("--sharp", "sharp", "--video", "--side-by-side", "--no-reference", "piqe"),
        *("--tile", "64", "--overwrite", "--anyway", "--no-page"),
    )
    assert recorded == RestoreRequest(
        frames=Path("blur"),
        output=Path("out"),
        spikes=Path("spike"),
        sensor=(24, 32),
        layout="spk_gopro",
        sharp=Path("sharp"),
        video=True,
        side_by_side=True,
        tile=64,
        overwrite=True,
        no_reference=["piqe"],
        anyway=True,
    )
    simulated = request("--simulate-spikes")
    assert simulated == RestoreRequest(
        frames=Path("blur"), output=Path("out"), simulate_spikes=True, no_reference=[], page=True
    )
    # Together they set all there is.
    defaults = RestoreRequest(Path(), Path())
    for name in (field.name for field in fields(RestoreRequest)):
        values = [getattr(made, name) for made in (recorded, simulated)]
        assert values != [getattr(defaults, name)] * 2, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--simulate-spikes", "--sensor", 24, 32), "sensor: describes recorded spikes"),
        (("--layout", "spk_gopro"), "layout: describes recorded spikes, and there are none"),
        ((), r"takes spikes \(MODEL.USE_SPIKE is true\); give either recorded spikes or"),
        (("--simulate-spikes", "-o", "out.mp4"), r"output: found out\.mp4, expected a folder"),
        (("--simulate-spikes", "--precision", "float16"), "found float16 on a CPU"),
    ],
)
def test_options_that_make_no_sense_are_refused(call, options, message):
    with pytest.raises(UserError, match=message):
        call(*options)


def restore_words(small_run, *words: str, output: Path) -> list[bytes]:
    """Run the command with the recorded spikes of a sequence; returns the restored files."""
    spikes = ["--spikes", str(small_run.raw / "test/b/spike"), "--device", "cpu"]
    assert run_command(["restore", *words, *spikes, "-o", str(output)]) == 0
    return [path.read_bytes() for path in sorted((output / "restored").iterdir())]


@pytest.fixture(scope="module")
def restored(small_run, tmp_path_factory) -> list[bytes]:
    """The restored files of a sequence, with the model before the frames."""
    words = (str(small_run.train), str(small_run.raw / "test/b/blur"))
    return restore_words(small_run, *words, output=tmp_path_factory.mktemp("restored") / "out")


@pytest.mark.parametrize("order", ["model, options, frames", "frames, options, --model"])
def test_the_model_stands_before_the_frames_or_behind_an_option(
    small_run, tmp_path, restored, order
):
    words = {
        "model": [str(small_run.train)],
        "frames": [str(small_run.raw / "test/b/blur")],
        "options": ["--precision", "float32"],
        "--model": ["--model", str(small_run.train)],
    }
    line = [word for part in order.split(", ") for word in words[part]]
    assert restore_words(small_run, *line, output=tmp_path / "out") == restored


def test_without_a_model_the_weights_of_the_package_restore(
    small_run, tmp_path, monkeypatch, restored
):
    shutil.copytree(small_run.train, tmp_path / "package/general")
    monkeypatch.setattr(named_models, "bundled_folder", (tmp_path / "package").joinpath)
    frames = str(small_run.raw / "test/b/blur")
    assert restore_words(small_run, frames, output=tmp_path / "own") == restored
    assert load(device="cpu").weights == file_digest(small_run.train / "weights.safetensors")


def test_no_model_and_two_models_are_refused(small_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(named_models, "bundled_folder", (tmp_path / "package").joinpath)
    run, frames = str(small_run.train), str(small_run.raw / "test/b/blur")
    for words, message in (
        ([run, frames, "--model", run], "found two models, .* give one"),
        ([run], "found a trained model, and no blurry frames"),
        ([frames], "--model: found none, and the weights 'general' are not in this installation"),
    ):
        with pytest.raises(UserError, match=message):
            run_command(["restore", *words, "-o", str(tmp_path / "out")])
    for words in ([run, frames, "more"], [run, frames, "--such"]):
        with pytest.raises(SystemExit):
            run_command(["restore", *words, "-o", str(tmp_path / "out")])
        assert f"unrecognized arguments: {words[-1]}" in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(call, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainedModel, "restore_opened", stop)
    status, shown = call("--simulate-spikes")
    assert status == 130
    assert shown.err.splitlines()[-1].startswith("stopped; the same command, without --overwrite,")


WITHOUT_PYTORCH = """
import sys
sys.modules["torch"] = None
from vrtspike.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"run": "nowhere"}, "nowhere/run.json: no such file; expected the folder of a finished"),
        ({"frames": "nowhere"}, "nowhere: cannot be read as a video (No such file"),
        ({"--spikes": "nowhere"}, "nowhere: no such file or folder; expected the spikes"),
        ({"--sharp": "nowhere"}, "nowhere: no pictures"),
        ({"--device": "cuda"}, "no GPU that this process may use"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_arguments_are_checked_before_pytorch_is_imported(small_run, tmp_path, changed, message):
    sequence = small_run.raw / "test" / "b"
    arguments = {
        "run": small_run.train,
        "frames": sequence / "blur",
        "--spikes": sequence / "spike",
    }
    arguments |= {"-o": tmp_path / "out"} | changed
    run, frames = arguments.pop("run"), arguments.pop("frames")
    options = [word for option in arguments.items() for word in option]
    command = [sys.executable, "-c", WITHOUT_PYTORCH, "restore", run, frames, *options]
    no_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=no_gpu
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("error: ")
    assert message in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_without_pictures_is_refused_before_missing_spikes(call, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: no pictures"):
        call(frames=tmp_path / "empty")


def test_metrics_from_spikes_of_another_sequence_are_left_out_beside_the_warning(small_run, call):
    shown = call("--spikes", small_run.raw / "test/c/spike")[1].out
    assert "warning: spikes that do not fit (5)" in shown
    assert "metrics from the spikes: left out, as the spikes do not fit the frames" in shown
    assert "Blurred again" not in shown
    assert "Correlation with the spikes" not in shown


def test_metrics_that_no_frame_has_are_not_shown(small_run, call, tmp_path):
    sequence = shutil.copytree(small_run.raw / "test/b", tmp_path / "b")
    lines = [f"{number:06d},0,56,24" for number in range(1, 6)]
    lines[2] = "000003,20,28,24"  # too short for metrics
    (sequence / "exposures.csv").write_text("\n".join(["frame,start,stop,sharp", *lines]))
    shown = call("--spikes", sequence / "spike", frames=sequence / "blur")[1].out
    assert "Correlation with the spikes, mean: " in shown
    assert "nan" not in shown


def test_without_a_page_none_is_written(small_run, call, tmp_path):
    spikes = ("--spikes", small_run.raw / "test/b/spike")
    shown = call(*spikes, "--no-page")[1].out
    assert "page:" not in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"restored", "restore.json"}
    with pytest.raises(UserError, match="--compare: found --no-page, too"):
        call(*spikes, "--no-page", "--compare", small_run.train)


def test_only_models_that_pytorch_computes_lock_a_gpu(small_run, install_gpus):
    """The driver is simulated; nothing is computed."""
    install_gpus({"uuid": "GPU-a", "total": 40, "used": 0})
    plain = ModelSource(small_run.train, read_published(small_run.train))
    exported = replace(plain, exported=load(small_run.train, device="cpu"))
    for models, expected in (([exported], "cpu"), ([exported, plain], "cuda"), ([plain], "cuda")):
        with open_device(models, "auto") as device:
            assert device.type == expected
    with open_device([plain], "cpu") as device:
        assert device.type == "cpu"


def test_a_second_model_that_is_missing_is_refused_before_anything_is_written(
    small_run, call, tmp_path
):
    with pytest.raises(UserError, match=r"nowhere/run\.json: no such file"):
        call("--spikes", small_run.raw / "test/b/spike", "--compare", "nowhere")
    assert not (tmp_path / "out").exists()


def test_a_second_model_stands_beside_the_first(small_run, call, tmp_path):
    spikes = ("--spikes", small_run.raw / "test/b/spike")
    out = tmp_path / "out"
    call(*spikes, "--video", "--compare", small_run.train)
    name = json.loads((out / "restore.json").read_text())["model"]["name"]
    assert f'"name":"{name} (compared)"' in (out / "index.html").read_text()
    assert {path.name for path in (out / "compared").iterdir()} == {"restored", "restore.json"}


def test_a_folder_of_restored_frames_stands_beside_a_model(small_run, call, tmp_path, restored):
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    for number, content in enumerate(restored, 1):
        (earlier / f"{number:06d}.png").write_bytes(content)
    call("--spikes", small_run.raw / "test/b/spike", "--compare", earlier)
    out = tmp_path / "out"
    assert '"name":"earlier"' in (out / "index.html").read_text()
    assert not (out / "compared").exists()

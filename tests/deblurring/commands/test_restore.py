"""``vrtspike restore`` as a user types it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.deblurring.evaluation.conftest import small_run
from vrtspike.commands.main import run_command
from vrtspike.errors import UserError
from vrtspike.io.files import write_json

__all__ = ["small_run"]


@pytest.fixture
def call(small_run, tmp_path, capsys):
    """Run the command on a folder with a model; gives its status and what it printed."""
    sequence = small_run.raw / "test" / "b"

    def run(*options: object, frames=sequence / "blur"):
        words = ["restore", small_run.train, frames, "-o", tmp_path / "out", *options]
        status = run_command([*map(str, words), "--device", "cpu"])
        return status, capsys.readouterr()

    return run


def test_it_prints_figures_and_where_things_lie(small_run, call, tmp_path):
    sequence = small_run.raw / "test" / "b"
    status, shown = call("--spikes", sequence / "spike", "--sharp", sequence / "sharp", "--video")
    assert status == 0
    lines = shown.out.splitlines()
    frames = json.loads((tmp_path / "out/restore.json").read_text())["frames"]
    assert lines[0] == f"000001: {frames[0]['psnr_blur']:.2f} dB -> {frames[0]['psnr']:.2f} dB"
    mean = [sum(frame[name] for frame in frames) / 5 for name in ("psnr_blur", "psnr")]
    assert lines[5] == f"mean PSNR, dB: {mean[0]:.2f} -> {mean[1]:.2f}"
    assert lines[6] == "spikes: recorded"
    assert lines[7].startswith("5 frames, ")
    assert "(whole frames, float32, 1.20 x computed)" in lines[7]
    assert (tmp_path / "out/restored.mp4").is_file()
    shutil.rmtree(tmp_path / "out/restored")
    shutil.copytree(sequence / "sharp", tmp_path / "out/restored")
    _, shown = call("--spikes", sequence / "spike", "--sharp", sequence / "sharp")
    assert shown.out.splitlines()[0] == "5 of 5 frames are there already, restored before"
    assert "dB -> identical\n" in shown.out
    assert "mean" not in shown.out
    assert (
        "correlation with the spikes at the sharp instant"
        in call("--spikes", sequence / "spike")[1].out
    )


def test_options_that_make_no_sense_together_are_refused(call):
    for options, match in (
        (["--simulate-spikes", "--sensor", 24, 32], "--sensor describes recorded spikes"),
        (["--simulate-spikes", "--tile", 63], "--tile: found 63, expected an even number"),
        ([], r"takes spikes \(MODEL.USE_SPIKE is true\); give either recorded ones \(--spikes\)"),
    ):
        with pytest.raises(UserError, match=match):
            call(*options)
    for options in (["--spikes", "folder"], ["--fps", 0], ["--fps", "nan"]):
        with pytest.raises(SystemExit):
            call("--simulate-spikes", *options)


def python(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    program += "\nfrom vrtspike.__main__ import main\nmain()"
    command = [sys.executable, "-c", program, *map(str, words)]
    no_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=no_gpu)


STOPPING = """
import signal, sys
def stop(event, arguments):
    if event == "os.rename" and str(arguments[1]).endswith("restored/003.png"):
        signal.raise_signal(signal.SIGINT)
sys.addaudithook(stop)
"""
"""Ctrl-C as the fourth frame is written."""


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_that_works(small_run, tmp_path, capsys):
    frames, output = tmp_path / "my frames", tmp_path / "out"
    frames.mkdir()
    files = sorted((small_run.raw / "test/b/blur").iterdir())
    for number in range(10):
        shutil.copyfile(files[number % 5], frames / f"{number:03d}.png")
    words = ["restore", small_run.train, frames, "--simulate-spikes", "-o", output]
    words = [*map(str, words), "--device", "cpu", "--overwrite"]
    ended = python(STOPPING, *words)
    assert ended.returncode == 130, ended.stderr
    saved = len(list((output / "restored").glob("*.png")))
    assert 3 <= saved <= 4
    before, _, command = ended.stderr.splitlines()[-1].partition("; continue: vrtspike ")
    assert before == f"stopped with {saved} frames restored"
    assert shlex.split(command) == [word for word in words if word != "--overwrite"]
    assert run_command(shlex.split(command)) == 0
    assert f"{saved} of 10 frames are there already" in capsys.readouterr().out
    assert len(list((output / "restored").glob("*.png"))) == 10


STOPPED_IMPORT = """
import sys
class Stopped:
    seen = 0
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            self.seen += 1
            raise KeyboardInterrupt if self.seen == 1 else ImportError("cannot be imported again")
sys.meta_path.insert(0, Stopped())
"""


def test_ctrl_c_while_libraries_are_imported_leaves_no_traceback(small_run, tmp_path):
    # PyTorch cannot be imported again in a process where that was stopped.
    sequence = small_run.raw / "test" / "b"
    words = ["restore", small_run.train, sequence / "blur", "-o", tmp_path / "out"]
    words += ["--spikes", sequence / "spike"]
    ended = python(STOPPED_IMPORT.format(module="torch"), *words)
    assert ended.returncode == 130, ended.stderr
    command = shlex.join(map(str, words))
    last = f"stopped with 0 frames restored; continue: vrtspike {command}\n"
    assert ended.stderr.endswith(last)
    assert "Traceback" not in ended.stderr
    ended = python(STOPPED_IMPORT.format(module="vrtspike.commands.main"), *words)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


WITHOUT_PYTORCH = "import sys; sys.modules['torch'] = None"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"run": "nowhere"}, "nowhere/run.json: no such file; expected the folder of a finished"),
        ({"frames": "nowhere"}, "nowhere: no such folder or file; expected blurry frames"),
        ({"--spikes": "nowhere"}, "nowhere: no such file or folder; expected the spikes"),
        ({"--sharp": "nowhere"}, "nowhere: no such folder; expected sharp frames"),
        ({"-o": "out.mp4"}, "--output: found out.mp4, expected a folder for frames and videos"),
        ({"--precision": "float16"}, "found float16 on a CPU"),
        ({"--device": "cuda"}, "no GPU that this process may use"),
        ({"frames": "pipe"}, "000002.png: found no regular file, expected a picture; remove it"),
        ({"run": "changed"}, "weights.safetensors: was changed after it was published: found"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_arguments_are_checked_before_pytorch_is_imported(small_run, tmp_path, changed, told):
    sequence = small_run.raw / "test" / "b"
    given = {"run": small_run.train, "frames": sequence / "blur", "--spikes": sequence / "spike"}
    given |= {"-o": tmp_path / "out"} | changed
    if given["frames"] == "pipe":
        given["frames"] = shutil.copytree(sequence / "blur", tmp_path / "pipe")
        (given["frames"] / "000002.png").unlink()
        os.mkfifo(given["frames"] / "000002.png")
    if given["run"] == "changed":
        given["run"] = shutil.copytree(small_run.train, tmp_path / "run")
        digests = {"weights.safetensors": "0" * 64}
        write_json(given["run"] / "run.json", {"status": "finished", "digests": digests})
    run, frames = given.pop("run"), given.pop("frames")
    options = [word for option in given.items() for word in option]
    ended = python(WITHOUT_PYTORCH, "restore", run, frames, *options)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("error: ")
    assert told in ended.stderr
    assert not (tmp_path / "out").exists()

"""``vrtspike restore`` as a user types it."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.deblurring.evaluation.conftest import small_run
from vrtspike.errors import UserError
from vrtspike.main import run_command

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
    assert lines[5] == f"mean: {mean[0]:.2f} dB -> {mean[1]:.2f} dB"
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


def test_options_that_make_no_sense_together_are_refused(call):
    for options, match in (
        (["--simulate-spikes", "--sensor", 24, 32], "--sensor describes recorded spikes"),
        (["--simulate-spikes", "--tile", 63], "--tile: found 63, expected an even number"),
        ([], r"takes spikes \(MODEL.USE_SPIKE is true\); give recorded ones \(--spikes\)"),
    ):
        with pytest.raises(UserError, match=match):
            call(*options)
    for options in (["--spikes", "folder"], ["--fps", 0], ["--fps", "nan"]):
        with pytest.raises(SystemExit):
            call("--simulate-spikes", *options)


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_that_works(small_run, tmp_path, capsys):
    frames, output = tmp_path / "my frames", tmp_path / "out"
    frames.mkdir()
    files = sorted((small_run.raw / "test/b/blur").iterdir())
    for number in range(60):
        shutil.copyfile(files[number % 5], frames / f"{number:03d}.png")
    words = ["restore", small_run.train, frames, "--simulate-spikes", "-o", output]
    words = [*map(str, words), "--device", "cpu", "--anew"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vrtspike", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        while not (output / "restored/003.png").is_file():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    saved = len(list((output / "restored").glob("*.png")))
    assert 4 <= saved < 60
    line = told.splitlines()[-1]
    before, _, command = line.partition("; continue: vrtspike ")
    assert before == f"stopped with {saved} frames restored"
    assert shlex.split(command) == [word for word in words if word != "--anew"]
    # All but one of the others are put there, so that the rest is short.
    for number in range(saved, 59):
        shutil.copyfile(output / "restored/000.png", output / f"restored/{number:03d}.png")
    assert run_command(shlex.split(command)) == 0
    assert "59 of 60 frames are there already" in capsys.readouterr().out
    assert len(list((output / "restored").glob("*.png"))) == 60


def test_ctrl_c_while_libraries_are_imported_leaves_no_traceback(tmp_path):
    # PyTorch cannot be imported again in a process where that was stopped.
    words = ["restore", "run", "frames", "-o", str(tmp_path / "out")]
    ended = subprocess.run(
        [sys.executable, "-c", RAISING_ONCE, *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130, ended.stderr
    line = "stopped with 0 frames restored; continue: vrtspike restore run frames -o "
    assert ended.stderr == f"{line}{tmp_path}/out\n"


RAISING_ONCE = """
import sys
class Stopped:
    def __init__(self):
        self.seen = 0
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            self.seen += 1
            raise KeyboardInterrupt if self.seen == 1 else ImportError("cannot be imported again")
sys.meta_path.insert(0, Stopped())
from vrtspike.main import main
main()
"""

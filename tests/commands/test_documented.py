"""docs/commands.md: every command in it is run, and its output has the documented lines."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.analysis.evaluated_runs import write_evaluation
from tests.data.raw.names import write_gopro
from tests.data.scenes import film
from tests.deblurring.old_log_texts import TRAIN
from tests.reporting.live_runs import note_status
from vrtspike.commands import main
from vrtspike.data.data_size import GB
from vrtspike.data.raw.spikes import write_spikes
from vrtspike.data.simulation.sensor import simulate_spikes
from vrtspike.deblurring.advice import hardware, recommendation
from vrtspike.deblurring.advice.hardware import Machine
from vrtspike.io.images import write_png
from vrtspike.system.errors import UserError
from vrtspike.system.home import HOME_VARIABLE

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/commands.md").read_text(encoding="utf-8")
IN_A_WORKFLOW = ("why", "verify", "restore", "pack", "export", "benchmark", "calibrate", "figure")
"""Need stores, weights, recordings or a plan: tests of their own, here, in tests/deblurring and in
tests/workflow/test_run.py."""


def documented(page: str = PAGE) -> list[tuple[list[str], list[str]]]:
    """The words of each command line and the lines that are shown below it."""
    examples: list[tuple[list[str], list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                examples.append((shlex.split(line)[2:], []))
            elif line:
                examples[-1][1].append(line)
    return examples


def label(line: str) -> str:
    """The subject of a line: its text up to the first number, path, colon or gap."""
    return re.split(r"[:\d/]|  ", line.strip())[0].strip()


@pytest.fixture
def folder(publish, tmp_path, monkeypatch):
    """A project's folder with what the page names."""
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    for name in ("demo", "baseline", "fast"):
        publish(name)
        write_evaluation(tmp_path / "evaluate" / name, name, 31.5)
    for kind in ("train", "evaluate"):
        shutil.move(tmp_path / kind, tmp_path / "results" / kind)
    run = tmp_path / "runs/demo/463b5b6d661e"
    shutil.copytree(tmp_path / "results/train/demo", run)
    note_status(run, "running")
    (tmp_path / "dataset.json").write_text("{}")
    frames = film(1, 6, 96, 128, speed=2)
    write_spikes(tmp_path / "000226.dat", simulate_spikes(frames)[:40])
    write_png(tmp_path / "000226.png", frames[2])
    logs = tmp_path / "outputs/logs"
    logs.mkdir(parents=True)
    (logs / "train_20251021.log").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, str(REPOSITORY))
    return tmp_path


def test_every_command_has_a_section():
    sections = re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)
    commands = sorted(main.COMMANDS)
    assert sorted(sections) == commands
    assert sorted({words[0] for words, _ in documented()}) == commands


@pytest.fixture
def documented_machine(monkeypatch):
    """The machine that the page shows: what is advised depends on its memory and its disk."""
    monkeypatch.setattr(
        hardware,
        "this_machine",
        lambda gpu: Machine(2, 24.0, gpu, *hardware.measure_speed(gpu)),
    )
    monkeypatch.setattr(recommendation, "free_bytes", lambda path: 51 * GB)


def test_every_documented_command_runs(folder, documented_machine, capsys):
    write_gopro(folder / "data/GOPRO_Large", spikes=False)
    for words, shown in documented():
        if words[0] in IN_A_WORKFLOW:
            continue
        status = main.run_command(words)
        printed = capsys.readouterr()
        labels = {label(line) for line in (printed.out + printed.err).splitlines()}
        # That data and weights are not there yet breaks nothing.
        assert not status, words
        if words[0] == "memory":  # nothing trains here
            shown = shown[-2:]
        missing = {label(line) for line in shown if not line.startswith("no findings")} - labels
        assert not missing, (words, missing, labels)
        if words[0] in ("advise", "data"):  # all numbers are those of the page's machine or data
            assert set(shown) <= set(printed.out.splitlines())
    assert (folder / "000226_spikes.mp4").stat().st_size > 1000
    assert (folder / "analysis/findings.html").is_file()
    assert (folder / "baseline.json").is_file()


def test_exit_status_of_a_guard(folder, capsys):
    run = ["compare", "results/train/demo"]
    assert main.run_command([*run, "--write-baseline", "b.json"]) == 0
    assert main.run_command([*run, "--baseline", "b.json"]) == 0
    path = folder / "b.json"
    path.write_text(path.read_text().replace("31.5", "32.5"))
    assert main.run_command([*run, "--baseline", "b.json"]) == 1
    assert "demo: psnr restored: 31.5, the baseline is 32.5" in capsys.readouterr().err


def test_results_go_to_the_given_folder(folder, capsys):
    size = ["--sensor", "48", "64"]
    main.run_command(["show", "000226.dat", *size, "-o", "a/b.png", "--video"])
    assert (folder / "a/b.png").is_file()
    assert (folder / "a/b.mp4").is_file()
    write_png(folder / "other.png", film(9, 1, 96, 128)[0])
    assert main.run_command(["show", "000226.dat", "--frame", "other.png"]) == 1
    assert "the spikes do not show the frame" in capsys.readouterr().out
    assert main.run_command(["compare", "results/train/demo", "-o", "pages"]) == 0
    assert (folder / "pages/table.html").is_file()
    capsys.readouterr()
    assert main.run_command(["compare", "results/train/demo", "--format", "csv"]) == 0
    # Nothing but the table on standard output.
    assert capsys.readouterr().out.count("\n") == 2


def test_advice_without_a_preset_that_fits_fails(folder, capsys):
    (folder / "config/config.yaml").write_text(
        "DATA: {ROOT: nosuch}\nPRESETS: [baseline]\nDEMO: {ROOT: elsewhere}\n"
    )
    words = ["advise", "--gpu", "4090", "--hours", "0.00001"]
    assert main.run_command(words) == 1
    assert "nothing to recommend: no preset fits" in capsys.readouterr().out


def test_options_that_would_have_no_effect_are_refused(publish, tmp_path):
    with pytest.raises(UserError, match="--gpus 3: says how many there are of the GPUs that --gpu"):
        main.run_command(["advise", "--gpus", "3"])
    with pytest.raises(
        UserError, match=r"--settings a\.yaml: says what a text log was trained with"
    ):
        main.run_command(["analyze", str(publish("one")), "--settings", "a.yaml"])


def test_compare_takes_folders_of_runs(publish, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(publish("one"), "runs/one/0123456789ab")
    main.run_command(["compare", "runs/one"])
    assert capsys.readouterr().out.splitlines()[0].split() == ["measurement", "one"]
    with pytest.raises(UserError, match="nosuch: no such file or folder; expected that of a run"):
        main.run_command(["compare", "nosuch"])

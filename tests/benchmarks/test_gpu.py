"""How ``benchmarks/gpu.py`` runs its parts: limits, ends, results and exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gpu as program
import gpu_parts as parts

# Stands for the program that runs a part in a process of its own.
STAND_IN = """
    import json, os, signal, subprocess, sys, time
    from pathlib import Path

    part = sys.argv[sys.argv.index("--part") + 1]
    answer = Path(sys.argv[sys.argv.index("--answer") + 1])
    found = {"figures": {"first": 1}}
    if part == "good":
        found["status"] = "ok"
    elif part == "wrong":
        found |= {"status": "failed", "reason": "first: does not agree"}
    elif part == "lacks something":
        found |= {"status": "not run", "figures": {}, "reason": "needs the package other"}
    elif part == "hangs":
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        found = {"figures": {"pid": started.pid}}
    answer.write_text(json.dumps(found))
    if part == "hangs":
        time.sleep(20)  # longer than its limit
    if part == "ends without a word":
        sys.exit(0)
    if part == "dies":
        print("the kernel was not launched", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path) -> Any:
    return parts.Place(torch.device("cpu"), str(tmp_path / "golden"))


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stand_in.py"
    file.write_text(textwrap.dedent(STAND_IN))
    monkeypatch.setattr(program, "PROGRAM", file)


def options(tmp_path: Path, budget: float) -> Namespace:
    return Namespace(output=tmp_path / "results", budget=budget)


@pytest.fixture(autouse=True)
def limits_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "CPU_FACTOR", 1)


def run_all(place, tmp_path, names, budget=600.0, limit=300) -> Any:
    todo = [parts.Part(name, "nowhere:nothing", limit) for name in names]
    status = program.run_all(todo, place, options(tmp_path, budget))
    return status, json.loads((tmp_path / "results/gpu_cpu.json").read_text())["parts"]


def test_a_part_that_fails_or_dies_stops_no_other(place, tmp_path, stand_in, capsys):
    names = ["wrong", "dies", "ends without a word", "lacks something", "good"]
    status, found = run_all(place, tmp_path, names)
    assert status == 1
    assert [found[name]["status"] for name in names] == [*["failed"] * 3, "not run", "ok"]
    assert found["dies"]["reason"].split("\n") == [
        f"its process ended with {-signal.SIGKILL}",
        "the kernel was not launched",
    ]
    # What was found before the end is kept.
    assert all(found[name]["figures"] == {"first": 1} for name in names if "lacks" not in name)
    told = capsys.readouterr().out.splitlines()
    assert "1 of 5 parts are ok; these are not:" in told
    assert told[-1] == "lacks something: not run: needs the package other"


def test_without_time_parts_are_named_and_not_run(place, tmp_path, stand_in, capsys):
    status, found = run_all(place, tmp_path, ["good", "dies"], budget=0)
    assert status == 1
    assert {part["status"] for part in found.values()} == {"not run"}
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"{name}: not run: no time left; give it a --budget" for name in ("good", "dies")
    ]


@pytest.mark.parametrize(("budget", "limit", "last"), [(600.0, 4, "ok"), (4.0, 300, "not run")])
def test_a_part_is_cut_off_with_what_it_started(
    place, tmp_path, stand_in, capsys, budget, limit, last
):
    """At its own limit, or where the budget ends."""
    status, found = run_all(place, tmp_path, ["hangs", "good"], budget, limit)
    assert status == 1
    assert [found[name]["status"] for name in ("hangs", "good")] == ["cut off", last]
    assert "hangs: cut off: its 4 s were over" in capsys.readouterr().out
    ends(found["hangs"]["figures"]["pid"])


def test_results_are_written_after_each_part_and_leave_those_of_others(
    place, tmp_path, monkeypatch
):
    written: list[list[str]] = []
    file = tmp_path / "results/gpu_cpu.json"

    def run_apart(part: Any, *_: object) -> dict[str, Any]:
        written.append(list(json.loads(file.read_text())["parts"]) if file.is_file() else [])
        return {"status": "ok", "seconds": 0.0, "figures": {}}

    monkeypatch.setattr(program, "run_apart", run_apart)
    assert run_all(place, tmp_path, ["a", "b", "c"])[0] == 0
    assert written == [[], ["a"], ["a", "b"]]
    assert set(run_all(place, tmp_path, ["d"])[1]) == {"a", "b", "c", "d"}
    file.write_text(json.dumps({"schema": 1, "parts": {"old": {}}}))
    assert set(run_all(place, tmp_path, ["d"])[1]) == {"d"}


def test_results_are_named_by_the_gpu(tmp_path, stand_in, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200 (fake)")
    gpu = parts.Place(torch.device("cuda"), "nowhere")
    program.run_all([parts.Part("good", "nowhere:nothing", 99)], gpu, options(tmp_path, 99))
    found = json.loads((tmp_path / "results/gpu_nvidia_h200_fake.json").read_text())
    assert found["device"] == "NVIDIA H200 (fake)"


def ends(pid: int) -> None:
    # The signal is sent; its process ends when the system gets round to it. If it never ends,
    # the test runs into its time limit.
    while is_alive(pid):
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Nobody waits for it: where it ended it is gone, or a remnant without memory."""
    try:
        return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def run_part(place, tmp_path, monkeypatch, function, **about) -> dict[str, Any]:
    module = SimpleNamespace(function=function)
    monkeypatch.setitem(sys.modules, "part_of_a_test", module)
    part = parts.Part("part", "part_of_a_test:function", 10, **about)
    program.run_here(part, place, tmp_path / "answer.json")
    found: dict[str, Any] = json.loads((tmp_path / "answer.json").read_text())
    return found


def test_figures_and_warnings_before_an_error_are_kept(place, tmp_path, monkeypatch):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        yield "speed", 2.5
        for _ in range(2):
            warnings.warn("a kernel is not used", stacklevel=1)
        # Whatever happens now, it is written down.
        assert json.loads((tmp_path / "answer.json").read_text()) == {"figures": {"speed": 2.5}}
        yield "nothing", float("nan")
        raise ValueError("too slow")

    found = run_part(place, tmp_path, monkeypatch, function)
    assert found["status"] == "failed"
    kept = {"speed": 2.5, "nothing": None, "warnings": ["a kernel is not used"]}
    assert found["figures"] == kept
    assert found["reason"].startswith("ValueError at test_gpu.py:")
    assert found["reason"].endswith(": too slow")


@pytest.mark.parametrize(
    ("figure", "reason"),
    [
        ({"agrees": False, "reason": "1.0e+00 of the norm"}, "first: 1.0e+00 of the norm"),
        ({"own": {"clips/s": 1.0}, "flex": {"agrees": False, "reason": "x"}}, "first flex: x"),
    ],
)
def test_a_figure_that_does_not_agree_fails_the_part(place, tmp_path, monkeypatch, figure, reason):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        yield "first", figure
        yield "second", {"agrees": True}

    found = run_part(place, tmp_path, monkeypatch, function)
    assert (found["status"], found["reason"]) == ("failed", reason)
    assert set(found["figures"]) == {"first", "second"}


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"cpu": False}, "needs a GPU"),
        ({"needs": ("torch", "no_such_package")}, "needs the package no_such_package"),
    ],
)
def test_what_cannot_run_is_named(place, tmp_path, monkeypatch, about, reason):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        raise AssertionError

    found = run_part(place, tmp_path, monkeypatch, function, **about)
    assert found == {"status": "not run", "figures": {}, "reason": reason}


def test_what_decides_comes_first_and_within_its_time():
    names = [part.name for part in parts.PARTS]
    assert names[: len(parts.FIRST)] == [
        "machine",
        "compile kernels",
        "agreement",
        "cuda graph",
        "steps",
        "steps beside torch.compile",
        "steps beside flex",
    ]
    assert sum(part.seconds for part in parts.FIRST) <= 480
    assert sum(part.seconds for part in parts.PARTS) <= 1320
    # Without an option there is time for all of them, in this order.
    options = program.parse([])
    assert options.budget == sum(part.seconds for part in parts.PARTS)
    assert list(options.only) == names


@pytest.mark.endurance
@pytest.mark.timeout(5000)
def test_all_parts_are_tried_on_a_cpu(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, str(program.PROGRAM), "--device", "cpu"),
            *("--budget", "5000", "--output", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads((tmp_path / "gpu_cpu.json").read_text())["parts"]
    assert set(found) == {part.name for part in parts.PARTS}
    for part in parts.PARTS:
        result = found[part.name]
        if part.cpu and result["status"] != "not run":
            assert (result["status"], result.get("reason")) == ("ok", None), part.name
        else:
            assert "needs" in result["reason"], part.name
            assert f"{part.name}: not run: " in done.stdout
    assert done.returncode == 1  # some need a GPU


def test_make_gpu_without_a_gpu_says_so(repository):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("MAKEFLAGS", None)
    done = subprocess.run(
        ["make", "--no-print-directory", "gpu", f"PYTHON={sys.executable}"],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: no GPU here")
    assert all(line.startswith("make") for line in rest)
    assert done.stdout == ""

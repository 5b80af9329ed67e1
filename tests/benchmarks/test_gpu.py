"""The machinery of ``benchmarks/gpu.py``, and its parts where they run without a GPU."""

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
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.training.recorders import CallRecorder, CallRecording
from vrtspike.deblurring.models import kernel_trust
from vrtspike.errors import RunError
from vrtspike.training import cuda_graphs

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

# Stands for the program that runs a part in a process of its own.
STAND_IN = """
    import json, os, signal, subprocess, sys
    from pathlib import Path

    part = sys.argv[sys.argv.index("--part") + 1]
    answer = Path(sys.argv[sys.argv.index("--answer") + 1])
    found = {"figures": {"first": 1}}
    if part == "good":
        found["status"] = "ok"
    elif part == "wrong":
        found |= {"status": "failed", "reason": "first: does not agree"}
    elif part == "leaves something":
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        found |= {"status": "ok", "figures": {"pid": started.pid}}
    answer.write_text(json.dumps(found))
    if part == "dies":
        print("the kernel was not launched", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu

    return gpu


@pytest.fixture
def parts(program: ModuleType) -> ModuleType:
    import gpu_parts

    return gpu_parts


@pytest.fixture
def checks(program: ModuleType) -> ModuleType:
    import gpu_checks

    return gpu_checks


@pytest.fixture
def place(parts: ModuleType, tmp_path: Path) -> Any:
    return parts.Place(torch.device("cpu"), str(tmp_path / "golden"))


@pytest.fixture
def stand_in(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stand_in.py"
    file.write_text(textwrap.dedent(STAND_IN))
    monkeypatch.setattr(program, "PROGRAM", file)


def options(tmp_path: Path, budget: float) -> Namespace:
    return Namespace(output=tmp_path / "results", budget=budget)


def run_all(program, parts, place, tmp_path, names, budget=600.0) -> tuple[int, dict[str, Any]]:
    todo = [parts.Part(name, "nowhere:nothing", 300) for name in names]
    status = program.run_all(todo, place, options(tmp_path, budget))
    return status, json.loads((tmp_path / "results/gpu_cpu.json").read_text())["parts"]


def test_a_part_that_fails_or_dies_stops_no_other(program, parts, place, tmp_path, stand_in):
    names = ["wrong", "dies", "good"]
    status, found = run_all(program, parts, place, tmp_path, names)
    assert status == 1
    assert [found[name]["status"] for name in names] == ["failed", "failed", "ok"]
    assert found["wrong"]["reason"] == "first: does not agree"
    assert found["dies"]["reason"].split("\n") == [
        f"its process ended with {-signal.SIGKILL}",
        "the kernel was not launched",
    ]
    # What was found before the end is kept.
    assert all(found[name]["figures"] == {"first": 1} for name in names)


def test_all_well_is_status_0(program, parts, place, tmp_path, stand_in):
    status, found = run_all(program, parts, place, tmp_path, ["good"])
    assert (status, found["good"]["status"]) == (0, "ok")
    assert "reason" not in found["good"]


def test_without_time_parts_are_named_and_not_run(program, parts, place, tmp_path, stand_in):
    status, found = run_all(program, parts, place, tmp_path, ["good", "dies"], budget=0)
    assert status == 0
    for part in found.values():
        assert part["status"] == "not run"
        assert "no time left" in part["reason"]


def test_a_part_is_cut_off_at_its_limit(program, parts, place):
    found = program.run_apart(parts.Part("machine", "gpu_speed:machine", 40), place, 0.01)
    assert found["status"] == "cut off"
    assert found["figures"] == {}


def test_what_a_part_started_ends_with_it(program, parts, place, tmp_path, stand_in):
    _, found = run_all(program, parts, place, tmp_path, ["leaves something"])
    pid = found["leaves something"]["figures"]["pid"]
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


def run_part(program, parts, place, tmp_path, monkeypatch, function, **about) -> dict[str, Any]:
    module = SimpleNamespace(function=function)
    monkeypatch.setitem(sys.modules, "part_of_a_test", module)
    part = parts.Part("part", "part_of_a_test:function", 10, **about)
    program.run_here(part, place, tmp_path / "answer.json")
    found: dict[str, Any] = json.loads((tmp_path / "answer.json").read_text())
    return found


def test_figures_before_an_error_are_kept(program, parts, place, tmp_path, monkeypatch):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        yield "speed", 2.5
        # Whatever happens now, it is written down.
        assert json.loads((tmp_path / "answer.json").read_text()) == {"figures": {"speed": 2.5}}
        yield "nothing", float("nan")
        raise ValueError("too slow")

    found = run_part(program, parts, place, tmp_path, monkeypatch, function)
    assert found["status"] == "failed"
    assert found["figures"] == {"speed": 2.5, "nothing": None}
    assert found["reason"].startswith("ValueError at test_gpu.py:")
    assert found["reason"].endswith(": too slow")


def test_a_figure_that_does_not_agree_fails_the_part(program, parts, place, tmp_path, monkeypatch):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        yield "first", {"agrees": False, "reason": "1.0e+00 of the norm"}
        yield "second", {"agrees": True}

    found = run_part(program, parts, place, tmp_path, monkeypatch, function)
    assert (found["status"], found["reason"]) == ("failed", "first: 1.0e+00 of the norm")
    assert set(found["figures"]) == {"first", "second"}


def test_warnings_of_a_part_are_kept_once(program, parts, place, tmp_path, monkeypatch):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        yield "speed", 1.0
        for _ in range(2):
            warnings.warn("a kernel is not used", stacklevel=1)

    found = run_part(program, parts, place, tmp_path, monkeypatch, function)
    assert found["status"] == "ok"
    assert found["figures"] == {"speed": 1.0, "warnings": ["a kernel is not used"]}


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"cpu": False}, "needs a GPU"),
        ({"needs": ("torch", "no_such_package")}, "needs the package no_such_package"),
    ],
)
def test_what_cannot_run_is_named(program, parts, place, tmp_path, monkeypatch, about, reason):
    def function(_: object) -> Iterator[tuple[str, Any]]:
        raise AssertionError

    found = run_part(program, parts, place, tmp_path, monkeypatch, function, **about)
    assert found == {"status": "not run", "figures": {}, "reason": reason}


def test_every_part_exists_and_they_fit_into_the_time(program, parts):
    names = [part.name for part in parts.PARTS]
    assert len(set(names)) == len(names)
    for part in parts.PARTS:
        assert callable(part.function()), part.name
        assert 0 < part.seconds < program.BUDGET


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


def found(figures: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    return dict(figures)


def test_a_kernel_that_differs_or_raises_does_not_agree(checks, place):
    def failing(*_: object) -> float:
        raise RuntimeError("no kernel image")

    trials = {0.9e-3: True, 1.1e-3: False, float("nan"): False}
    for difference, agrees in trials.items():
        result = checks.agreement(lambda *_, d=difference: d, place, torch.float32)
        assert result["agrees"] is agrees, difference
    result = checks.agreement(failing, place, torch.float32)
    assert result == {"agrees": False, "reason": "RuntimeError: no kernel image"}


def test_safetensors_are_read_without_the_package(checks, tmp_path):
    tensors = {"a": torch.randn(3, 4), "b": torch.randn(()), "steps": torch.arange(5)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"made": "here"})
    read = checks.read_safetensors(tmp_path / "x.safetensors")
    assert set(read) == {"a", "b"}
    assert all(torch.equal(read[name], tensors[name]) for name in read)


@pytest.mark.parametrize("wrong", [None, "output", "gradient"])
def test_golden_values_that_differ_are_seen(checks, wrong):
    vrt, (blur, _) = checks.small_model(torch.device("cpu"))
    vrt = vrt.vrt.eval()  # nothing is dropped at random
    target = torch.rand_like(blur)
    output = vrt(blur)
    (output - target).abs().mean().backward()
    name = "stage1.linear1.weight"
    gradient = dict(vrt.named_parameters())[name].grad.clone()
    tensors = {"t5.input": blur, "t5.target": target, "t5.output": output.detach()}
    tensors[f"t5.grad.{name}"] = gradient
    if wrong == "output":
        tensors["t5.output"] = blur + 1.01 * (output.detach() - blur)
    elif wrong == "gradient":
        tensors[f"t5.grad.{name}"] = gradient.roll(1, 0)
    vrt.zero_grad(set_to_none=True)
    result = checks.golden_agreement(vrt, tensors, torch.device("cpu"), None)
    assert result["agrees"] is (wrong is None), result["reason"]


def test_missing_golden_files_are_named(checks, place):
    assert found(checks.golden(place)) == {"golden files": {"present": False}}


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(checks, place):
    figures = found(checks.resume(place))
    assert figures["losses"]["difference"] == 0.0
    assert figures["falling"]["agrees"]


@pytest.mark.parametrize("spoilt", [False, True])
def test_a_replay_is_compared_with_what_was_launched(checks, place, monkeypatch, spoilt):
    recorder = CallRecorder()
    monkeypatch.setattr(cuda_graphs, "CudaRecorder", lambda *_: recorder)
    if not spoilt:
        figures = found(checks.recorded(place))
        assert figures["last replay"]["difference"] == 0.0
        assert recorder.replays == 3  # one for the comparison
        return
    monkeypatch.setattr(CallRecording, "replay", lambda self: {"loss": torch.tensor(0.0)})
    with pytest.raises(RunError, match="differ"):
        found(checks.recorded(place))


def test_memory_by_category_is_that_of_the_arithmetic(checks, place):
    figures = found(checks.memory_categories(place))
    assert figures["categories"]["agrees"]
    assert figures["now"]["gpu"] is None


def test_outcomes_of_tests_are_taken_from_the_report(checks, tmp_path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import pytest

            @pytest.fixture
            def broken():
                raise OSError("no file")

            def test_good(): pass
            def test_bad(): assert 1 == 2
            def test_skipped(): pytest.skip("not here")
            def test_error(broken): pass
            """
        )
    )
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    command += [f"--rootdir={tmp_path}", f"--junitxml={report}", str(tmp_path)]
    subprocess.run(command, capture_output=True, check=False)
    figures = found(checks.outcomes(report))
    kinds = {name.rpartition(".")[2]: figure for name, figure in figures.items()}
    assert kinds["test_good"]["agrees"]
    assert not kinds["test_bad"]["agrees"]
    assert "1 == 2" in kinds["test_bad"]["reason"]
    assert kinds["test_skipped"] == {"skipped": "not here"}
    assert "no file" in kinds["test_error"]["reason"]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_what_a_step_by_definitions_computes_again_takes_no_kernel(program, place):
    import gpu_speed

    switches = [f"MODEL.VRT.USE_CHECKPOINT_{name}=true" for name in ("ATTN", "FFN")]
    step = gpu_speed.Step(place, "demo", switches, gpu_speed.defined)
    seen = []
    # With both switches the flow is computed again.
    step.model.vrt.spynet.register_forward_pre_hook(
        lambda *_: seen.append(kernel_trust.has_triton())
    )
    step()
    assert seen == [False, False]
    assert kernel_trust.has_triton()


@pytest.mark.endurance
def test_a_step_and_its_profile_are_measured(program, place):
    import gpu_speed

    (name, pair), *_ = gpu_speed.steps(place)
    assert name == "demo"
    for kind in ("explicit", "definitions"):
        ratio = pair["own"]["clips/s"] / pair[kind]["clips/s"]
        assert pair[f"times {kind}"] == pytest.approx(ratio)
    assert pair["own"]["kept GiB"] < pair["explicit"]["kept GiB"]
    ((_, profile),) = gpu_speed.profile(place)
    assert profile["ms"] > 0
    times = [ms for _, _, ms in profile["kernels"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == gpu_speed.PROFILED

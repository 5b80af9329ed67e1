from __future__ import annotations

import re
import shutil

import pytest

from vrtspike.commands import hardware
from vrtspike.commands import preset_advice as module
from vrtspike.commands.hardware import (
    GpuKind,
    Machine,
    Speed,
    known_tflops,
    measure_speed,
    named_gpu,
)
from vrtspike.commands.preset_advice import advice_lines, advise, advise_batch
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import load_workflow, read_workflow
from vrtspike.deblurring.costs import table
from vrtspike.errors import RunError, UserError
from vrtspike.sst.problem import memory

GB = 10**9


@pytest.fixture
def project(repository, tmp_path, monkeypatch):
    """The project's configuration in a folder without data, on a disk with 100 GB."""
    shutil.copytree(repository / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "free_bytes", lambda path: 100 * GB)
    # Two cores.
    monkeypatch.setattr(hardware, "measure_peak", lambda device, dtype: 0.15e12)
    return tmp_path


def ask(name, count=1, memory=64.0, cpus=16, hours=336.0, **configuration):
    workflow = load_workflow(["config/config.yaml"], configuration)
    gpu = named_gpu(name, count) if name else None
    machine = Machine(cpus, memory, gpu)
    return advise(workflow, machine, measure_speed(gpu), hours)


def reasons(advice):
    return {fit.name: "; ".join(fit.reasons) for fit in advice.fits}


def test_a_large_gpu_takes_the_fast_preset(project):
    found = ask("H200")
    assert found.command == "snakemake --cores 16 train_fast"
    assert "baseline, low_memory, low_ram, opt, compact, light would fit, too" in found.reason
    assert "set DATA.ROOT first" in found.reason
    assert "it trains from random weights" in found.reason
    assert reasons(found)["fast"] == ""
    assert "MODEL.VRT.PRETRAINED: weights/006_VRT" in reasons(found)["reproduce"]


def test_a_small_gpu_does_not(project):
    found = ask("4090")
    assert found.command == "snakemake --cores 16 train_baseline"
    assert reasons(found)["fast"] == "needs 45 of 24 GiB of GPU memory"
    hours = {fit.name: fit.hours for fit in found.fits}
    # 73,236 clips at a tenth of the 165.2 TFLOP/s of the data sheet.
    tflop = table()["presets"]["baseline"]["run_tflop"]
    assert hours["baseline"] == pytest.approx(73_236 * tflop / (0.1 * 165.2) / 3600)
    tiny = GpuKind("GeForce", 1, 8.0, "580", 10.0)
    few = advise(load_workflow(["config/config.yaml"]), Machine(8, 64, tiny), Speed(4.0, ""), 336)
    assert reasons(few)["low_memory"] == "needs 10 of 8 GiB of GPU memory"


def test_several_gpus_share_the_work(project):
    one, three = (
        next(f.hours for f in ask("A6000", n).fits if f.name == "baseline") for n in (1, 3)
    )
    assert one / three == pytest.approx(3 * 0.9, rel=5e-3)


def test_without_a_gpu_only_the_demo_ends(project):
    found = ask(None, cpus=2)
    assert found.command == "make demo"
    assert "takes more than 336 hours" in reasons(found)["baseline"]
    assert found.budget.speed.tflops == pytest.approx(0.48 * 0.15)
    hours = next(f.hours for f in found.fits if f.name == "demo")
    clip = table()["presets"]["demo"]["run_tflop"]
    assert hours == pytest.approx(120 * clip / found.budget.speed.tflops / 3600)
    # Who has months may train.
    assert ask(None, cpus=2, hours=1e6).command == "snakemake --cores 2 train_baseline"


def test_memory_disk_and_hours_are_reasons(project, monkeypatch):
    small = ask("A100", memory=6.0)
    # 4 GB (3.73 GiB) of cache, 3 GiB for CUDA, and 0.15 for each of 12 + 6 workers.
    assert reasons(small)["baseline"] == "needs 9 of 6 GiB of memory"
    assert next(f.memory_gib for f in small.fits if f.name == "baseline") == pytest.approx(
        4e9 / 2**30 + 5.7
    )
    assert reasons(ask("A100", hours=5))["baseline"] == "takes more than 5 hours"
    short = ask("4090", hours=10)
    assert short.command == "snakemake --cores 16 train_light"
    assert "VRT-Spike (reproduce) also uses neighbouring frames" in short.reason
    assert (ask("A100", hours=0).command, ask("A100", hours=0).reason) == (None, "no preset fits")
    monkeypatch.setattr(module, "free_bytes", lambda path: 30 * GB)
    # 29.3 GB of stores and four checkpoints of 0.29 GB.
    assert reasons(ask("A100"))["baseline"] == "needs 30 GB of disk, 30 are free"
    assert ask("A100").command == "make demo"
    # Stores that are there already need no more space.
    monkeypatch.setattr(module, "folder_size", lambda folder: (1, 2 * GB))
    assert reasons(ask("A100"))["baseline"] == ""


def test_what_a_person_reads(project):
    lines = advice_lines(ask("A6000", 3))
    assert lines[0] == "machine: 3 x A6000 with 48 GiB, 16 CPUs, 64 GiB of memory"
    assert lines[2] == "disk:    100 GB free for results"
    assert "gopro_spike: data/gopro_spike is not there; the figures are those of GoPro" in lines[3]
    assert lines[5].strip() == "stores of 32 bins need 29.3 GB, 0.0 GB are there"
    (row,) = [line for line in lines if line.startswith("baseline")]
    assert re.fullmatch(r"baseline +9\.8 GiB +\S+ GiB +4,066 +16\.\d\d +yes", row)
    assert lines[-2] == "recommended: snakemake --cores 16 train_baseline"


def test_a_preset_of_ones_own(project):
    (project / "config/presets/mine.yaml").write_text(
        "BASE: baseline\nDATA: {USE_RAM_CACHE: false}\n"
    )
    (project / "config/presets/odd.yaml").write_text("BASE: fast\nMODEL: {WINDOW_SIZE: 5}\n")
    (project / "config/presets/wrong.yaml").write_text("TRAIN: {EPOCH: 3}\n")
    found = ask("A6000")
    assert reasons(found)["mine"] == ""
    # 3 GiB for CUDA, and 0.15 for each of 12 + 6 workers.
    assert next(f.memory_gib for f in found.fits if f.name == "mine") == pytest.approx(5.7)
    assert reasons(found)["wrong"] == "its file is wrong"
    assert reasons(found)["odd"] == "the cost of its model was never counted"
    text = "\n".join(advice_lines(found))
    assert "no: the cost of its model was never counted" in text


def test_gpus_are_known_by_name():
    assert known_tflops("NVIDIA GeForce RTX 4090") == 165.2
    assert known_tflops("NVIDIA RTX A6000") == 154.8
    assert known_tflops("NVIDIA A10") is None
    assert known_tflops("NVIDIA RTX A1000") is None
    with pytest.raises(RunError, match=r"--gpu T4: expected .*A6000"):
        named_gpu("T4", 1)


def test_elsewhere_there_is_no_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no config/config\.yaml here; go to the project"):
        read_workflow([], [])


def test_the_speed_of_this_machine_is_measured():
    # From an old laptop on which others work to a large server.
    assert 0.0002 < measure_speed(None).tflops < 20


def test_a_gpu_that_is_not_in_the_table_is_measured(monkeypatch):
    unknown = GpuKind("NVIDIA A10", 1, 24)
    monkeypatch.setattr(hardware, "measure_peak", lambda device, dtype: 75e12)
    # A product reaches three quarters of the data sheet, a training step a tenth.
    assert measure_speed(unknown).tflops == pytest.approx(10)

    def broken(*_: object) -> float:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(hardware, "measure_peak", broken)
    with pytest.raises(RunError, match=r"A10 does not compute \(no kernel image\); see vrtspike"):
        measure_speed(unknown)


def test_presets_of_another_problem_alone(project):
    for path in (project / "config/presets").glob("*.yaml"):
        if not path.name.startswith("sst"):
            path.unlink()
    found = ask("A6000", PRESETS="sst")
    assert found.command == "snakemake --cores 16 train_sst"
    text = "\n".join(advice_lines(found))
    assert not re.search("clip|frames|no preset fits|preset  ", text), text
    assert "samples of a micro-step, and the learning rate" in text
    # What fits is what the problem counts: a part of the GPU, over that of a sample.
    fixed, sample = memory(load_workflow(["config/config.yaml"], {"PRESETS": "sst"}).preset("sst"))
    assert found.batches["sst"].startswith(f"{int((0.9 * 48 - fixed) / sample)} fit: TRAIN.")


RATE = "TRAIN.BATCH_SIZE={} TRAIN.OPTIM.LR={}"
MICRO = "TRAIN.BATCH_SIZE={} TRAIN.GRADIENT_ACCUMULATION_STEPS={}"


@pytest.mark.parametrize(
    ("batch", "micro_steps", "sample", "usable", "text"),
    [
        # Twice 16 fit, four times do not; more than four times are not asked for.
        (
            16,
            1,
            0.5,
            24.0,
            f"40 fit: {RATE.format(32, 0.00141)} (0.001 x sqrt(32/16))",
        ),
        (
            16,
            1,
            0.001,
            5.0,
            f"1000 fit: {RATE.format(64, 0.002)} (0.001 x sqrt(64/16))",
        ),
        # Three fit, and so do four, which are no part of six.
        (1, 6, 5.0, 24.9, f"4 fit: {MICRO.format(3, 2)}, 6 samples a step"),
        (1, 6, 5.0, 40.0, f"7 fit: {MICRO.format(6, 1)}, 6 samples a step"),
        (1, 6, 0.5, 40.0, f"72 fit: {MICRO.format(24, 1)} TRAIN.OPTIM.LR="),
        (1, 7, 5.0, 9.5, f"1 fit: {MICRO.format(1, 7)}, 7 samples a step"),
        (1, 1, 5.0, 8.0, ""),
    ],
)
def test_batches_and_rates(batch, micro_steps, sample, usable, text):
    train = {"BATCH_SIZE": batch, "GRADIENT_ACCUMULATION_STEPS": micro_steps, "OPTIM": {"LR": 1e-3}}
    settings = RunSettings.model_validate({"TRAIN": train})
    found = advise_batch(settings, fixed=4.0, sample=sample, usable=usable)
    assert found.startswith(text) if text else not found

"""`BaseTrainer`: training, saving, resuming, initial models and invalid parameters."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.multiprocessing.spawn import spawn

from tests.helpers.concurrency import free_port
from tests.sst.conftest import PACIFIC
from vrtspike.sst import Area, BaseTrainer, ERA5SSTMonthlyDataset, RecursiveAttentionTransformer
from vrtspike.sst.base_trainer import read_model
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.store import PreparedStore
from vrtspike.sst.trainer_parameters import PARAMETERS
from vrtspike.system.errors import ConfigError, RunError

TINY = {
    **{"width": 20, "height": 10, "seq_len": 2, "d_model": 16, "num_heads": 2, "num_layers": 1},
    **{"dim_feedforward": 16, "dropout": 0.0, "recursion_depth": 1, "patch_size": 5},
}
FAST = {"epochs": 2, "batch_size": 20, "num_workers": 0}


def trainer(store: Any, folder: Path, **changes: Any) -> BaseTrainer:
    options: dict[str, Any] = {
        "title": "tiny",
        "area": PACIFIC,
        "uid": "one",
        "model_class": RecursiveAttentionTransformer,
        "dataset_class": ERA5SSTMonthlyDataset,
        "save_path": folder / "model.pkl",
        "pre_model": False,
        "dataset_params": {"seq_len": 2, "store": store.path},
        "trainer_params": FAST,
        "model_params": TINY,
    }
    return BaseTrainer(**options | changes)


@pytest.fixture(scope="module")
def trained(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    first = trainer(store, folder)
    return first, first.train()


def test_it_trains_saves_and_returns_the_model(trained, store):
    done, model = trained
    assert not model.training
    again, facts = read_model(done.save_path, RecursiveAttentionTransformer)
    assert not again.training
    sample = ERA5SSTMonthlyDataset(2, store=store.path, split="test")[0]
    past, month = sample["past"][None], sample["month"][None]
    assert torch.equal(again(past, month), model(past, month))
    # Something was learned: it is no longer persistence.
    assert not torch.equal(model(past, month), past[:, -1:])
    assert facts["model_params"]["seq_len"] == 2
    assert Area(**facts["area"]) == PACIFIC


def test_the_best_weights_are_the_ones_returned(store, tmp_path):
    """A learning rate far too high after a good start: the last weights are the worst."""
    fast = FAST | {"epochs": 4, "warmup_steps": 9}
    changes = {"trainer_params": fast, "model_params": TINY | {"learning_rate": 3.0}}
    spoilt = trainer(store, tmp_path, **changes)
    weights = spoilt.train().state_dict()
    lines = map(json.loads, (spoilt.folder / "metrics.jsonl").read_text().splitlines())
    errors = [line["rmse"] for line in lines if line["kind"] == "validation"]
    assert min(errors) < errors[-1]
    for name, values in load_file(spoilt.folder / "best.safetensors").items():
        assert torch.equal(weights[name], values)


def test_parameters_arrive_where_they_act(store, tmp_path):
    parameters = {
        **{"epochs": 40, "batch_size": 10, "accumulate_grad_batches": 2, "max_steps": 1000},
        **{"gradient_clip_val": 0.5, "compile_model": True, "compile_mode": "max-autotune"},
        **{"precision": "bf16-mixed", "num_workers": 0, "prefetch_factor": 5, "pin_memory": False},
        **{"persistent_workers": False, "cudnn_deterministic": True, "seed": 9, "ema": 0.5},
        **{"weight_decay": 0.25, "early_stopping_patience": 7},
    }
    made = trainer(
        store, tmp_path, trainer_params=parameters, model_params=TINY | {"learning_rate": 0.02}
    )
    expected = {PARAMETERS[name][0]: value for name, value in parameters.items()}
    expected |= {"TRAIN.OPTIM.LR": 0.02, "TRAIN.VAL_BATCH_SIZE": 10, "DATALOADER.DROP_LAST": False}
    expected |= {"TRAIN.SCHED.WARMUP_STEPS": None, "LOG.VAL_EVERY_STEPS": None}
    assert made.settings == expected


class Interrupting(ERA5SSTMonthlyDataset):
    """Asks its process to stop, as Ctrl-C does, when it is read for the 30th time; once."""

    reads = 0

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        Interrupting.reads += 1
        if Interrupting.reads == 30:
            signal.raise_signal(signal.SIGINT)
        return super().__getitem__(index)


def test_a_run_that_was_stopped_goes_on_to_the_same_end(trained, store, tmp_path, capsys):
    _, undisturbed = trained
    Interrupting.reads = 0
    with pytest.raises(SystemExit) as caught:
        trainer(store, tmp_path, dataset_class=Interrupting).train()
    assert caught.value.code == 75
    output = capsys.readouterr().out
    assert "tiny: stopped after step 2; uid='one' goes on" in output
    samples = len(ERA5SSTMonthlyDataset(2, store=store.path, split="train"))
    title, data, *parameters = output.splitlines()
    assert title == "========== tiny, Pacific =========="
    assert data == f"samples: {samples}, learning_rate: 0.001"
    assert {f"{name}: {value}" for name, value in FAST.items()} < {*parameters}
    assert not (tmp_path / "model.pkl").exists()
    model = trainer(store, tmp_path, dataset_class=Interrupting).train()
    assert "resuming after step 2 of 6" in capsys.readouterr().out
    for one, other in zip(model.parameters(), undisturbed.parameters(), strict=True):
        assert torch.equal(one, other)


def stop_one_of_two(rank: int, port: int, store: Path, folder: Path) -> None:
    """Train as one of two processes, of which each asks both to stop in its second batch."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in (ranks | address).items()})
    torch.set_num_threads(1)
    with pytest.raises(SystemExit, match="75"):
        trainer(PreparedStore(store), folder, dataset_class=Interrupting).train()


@pytest.mark.slow
def test_a_run_of_two_processes_goes_on_alone(store, tmp_path, capsys):
    """Its identity has no number that the machine decides, such as the steps of the warm-up."""
    with free_port() as port:
        spawn(stop_one_of_two, (port, store.path, tmp_path), nprocs=2)
    Interrupting.reads = 30  # past the interruption
    trainer(store, tmp_path, dataset_class=Interrupting).train()
    output = capsys.readouterr().out
    # Three batches an epoch, two a step.
    assert "resuming after step 2 of 3" in output
    assert "tiny: finished after 3 steps" in output


def test_a_run_is_identified_by_the_precision_as_written(store, tmp_path):
    """On a CPU 16-mixed computes as 32 does; these are two runs nevertheless, as on a GPU."""
    short = FAST | {"max_steps": 1}
    trainer(store, tmp_path, trainer_params=short).train()
    record = json.loads((tmp_path / "model_runs/one/run.json").read_text())
    assert record["precision"] == "32"
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, trainer_params=short | {"precision": "32"}).train()


@pytest.mark.parametrize("start", [True, "path"])
def test_it_starts_from_a_model(trained, store, tmp_path, start):
    done, model = trained
    if start is True:
        (tmp_path / "model.pkl").write_bytes(done.save_path.read_bytes())
    # One step at next to no rate leaves the weights where they were.
    changes: dict[str, Any] = {
        "pre_model": True if start is True else done.save_path,
        "trainer_params": FAST | {"max_steps": 1},
        "model_params": TINY | {"learning_rate": 1e-7},
    }
    after = trainer(store, tmp_path, **changes).train()
    for one, other in zip(after.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-7, rtol=1e-6)


def test_another_start_is_another_run(trained, store, tmp_path):
    done, _ = trained
    short = FAST | {"max_steps": 1}
    trainer(store, tmp_path, trainer_params=short).train()
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, trainer_params=short, pre_model=done.save_path).train()


@pytest.mark.parametrize("start", [True, "path", "relative path"])
def test_a_call_from_the_saved_model_gives_its_result_when_it_is_repeated(
    trained, store, tmp_path, capsys, start
):
    """As a cell of a notebook that is run twice, although the result has replaced its start."""
    first = trained[0].save_path.read_bytes()
    path = tmp_path / "model.pkl"
    path.write_bytes(first)
    starts = {True: True, "path": path, "relative path": os.path.relpath(path)}
    changes: dict[str, Any] = {
        "pre_model": starts[start],
        "trainer_params": FAST | {"max_steps": 1},
    }
    once = trainer(store, tmp_path, **changes).train()
    assert path.read_bytes() != first
    again = trainer(store, tmp_path, **changes).train()
    assert capsys.readouterr().out.count("tiny: finished after 1 steps") == 2
    for one, other in zip(once.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    result = path.read_bytes()
    # Another uid trains the result further, and the first call then has another start.
    further = trainer(store, tmp_path, uid="two", **changes).train()
    assert not torch.equal(next(further.parameters()), next(once.parameters()))
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, **changes).train()
    # The start of the second run is the result of the first one, not the start of that.
    path.write_bytes(result)
    repeated = trainer(store, tmp_path, uid="two", **changes).train()
    assert torch.equal(next(repeated.parameters()), next(further.parameters()))


def test_a_result_is_not_the_start_of_its_own_run(store, tmp_path):
    short = FAST | {"max_steps": 1}
    trainer(store, tmp_path, trainer_params=short).train()
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, trainer_params=short, pre_model=True).train()


def test_the_result_of_another_start_is_not_the_start_of_its_own_run(trained, store, tmp_path):
    changes: dict[str, Any] = {"trainer_params": FAST | {"max_steps": 1}}
    trainer(store, tmp_path, pre_model=trained[0].save_path, **changes).train()
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, pre_model=True, **changes).train()


def test_a_run_that_starts_anew_from_its_result_goes_on_after_a_stop(
    trained, store, tmp_path, capsys
):
    (tmp_path / "model.pkl").write_bytes(trained[0].save_path.read_bytes())
    Interrupting.reads = 30  # past the interruption
    first = trainer(store, tmp_path, pre_model=True, dataset_class=Interrupting)
    first.train()
    shutil.rmtree(first.folder)
    Interrupting.reads = 0
    with pytest.raises(SystemExit):
        trainer(store, tmp_path, pre_model=True, dataset_class=Interrupting).train()
    trainer(store, tmp_path, pre_model=True, dataset_class=Interrupting).train()
    assert "resuming after step 2 of 6" in capsys.readouterr().out


def test_a_result_starts_a_run_anew_without_its_folder(trained, store, tmp_path):
    (tmp_path / "model.pkl").write_bytes(trained[0].save_path.read_bytes())
    changes: dict[str, Any] = {"pre_model": True, "trainer_params": FAST | {"max_steps": 1}}
    first = trainer(store, tmp_path, **changes)
    once = first.train()
    shutil.rmtree(first.folder)
    again = trainer(store, tmp_path, **changes).train()
    assert not torch.equal(next(once.parameters()), next(again.parameters()))


@pytest.mark.parametrize("kind", ["missing", "text", "weights", "code"])
def test_a_file_without_a_saved_model_is_refused(trained, tmp_path, kind):
    path = tmp_path / "a.pkl"
    if kind == "text":
        path.write_bytes(b"nothing")
    elif kind != "missing":
        torch.save(
            {"weights": trained[1].state_dict(), "code": {"facts": Harm(tmp_path)}}[kind], path
        )
    with pytest.raises(RunError, match=r"a.pkl: no model that a trainer saved"):
        read_model(path, RecursiveAttentionTransformer)
    assert not (tmp_path / "harm").exists()


def test_a_start_of_another_kind_is_refused(trained, store, tmp_path):
    with pytest.raises(RunError, match=r"pre_model: .*model.pkl: No such file"):
        trainer(store, tmp_path, pre_model=True).train()
    smaller = TINY | {"d_model": 8}
    with pytest.raises(RunError, match="weights of another model"):
        trainer(store, tmp_path, pre_model=trained[0].save_path, model_params=smaller).train()
    with pytest.raises(RunError, match=r"model.pkl: .* another class \(Own"):
        read_model(trained[0].save_path, Own)


class Harm:
    """Code in a file, which is not run when the file is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return Path.touch, (self.folder / "harm",)


class Own(nn.Module):
    """A model of someone's own: no learning rate, no grid."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
        return past[:, -1:] * self.factor


def test_a_custom_model_is_trained(store, tmp_path):
    custom = trainer(
        store,
        tmp_path,
        model_class=Own,
        model_params={"factor": 1.0, "learning_rate": 0.05},
        trainer_params=FAST | {"epochs": 10, "batch_size": 58},
    )
    model = custom.train()
    assert custom.learning_rate == 0.05
    # Half of an anomaly is weather: less than all of it is the better forecast.
    assert model.factor.item() < 0.9


REFUSED: dict[str, dict[str, Any]] = {
    "uid: found '../x', expected a word": {"uid": "../x"},
    "uid: found '..', expected a word": {"uid": ".."},
    "trainer_params: batchsize: unknown; did you mean batch_size?": {"batchsize": 8},
    "trainer_params: epochs: TRAIN.EPOCHS: found 0": {"epochs": 0},
    "trainer_params: precision: TRAIN.PRECISION: found [16]": {"precision": [16]},
    "trainer_params: batch_size: TRAIN.BATCH_SIZE: found None": {"batch_size": None},
    "trainer_params: use_fp16: TRAIN.PRECISION: found 'O1'": {"use_fp16": "O1"},
    "says precision '32', another name '16-mixed'": {"use_fp16": True, "precision": "32"},
    "another name False": {"cudnn_benchmark": True, "cudnn_deterministic": True},
    "gradient_clip_algorithm is 'value', expected": {"gradient_clip_algorithm": "value"},
    "model_params: learning_rate: TRAIN.OPTIM.LR: found 0": {"model_params": {"learning_rate": 0}},
}


@pytest.mark.parametrize("words", REFUSED)
def test_invalid_parameters_are_refused_before_anything_is_read(store, tmp_path, words):
    options = REFUSED[words]
    changes = options if {"uid", "model_params"} & set(options) else {"trainer_params": options}
    with pytest.raises(ConfigError) as caught:
        trainer(store, tmp_path, **changes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"seq_len": 3}, r"model_params: found .*'seq_len': 3.*, expected .*'seq_len': 2.* in the"),
        ({"lead": 2}, r"model_params: found .*'lead': 2.*, expected .*'lead': 1"),
        ({"width": 18}, "10 rows and 20 columns.*width 18"),
    ],
)
def test_data_and_model_must_agree(store, tmp_path, model, words):
    with pytest.raises(ConfigError, match=words):
        trainer(store, tmp_path, model_params=TINY | model).train()


def test_missing_model_parameters_come_from_the_data(store, tmp_path):
    longer = {"seq_len": 2, "lead": 3, "store": store.path}
    short = FAST | {"max_steps": 1}
    assert trainer(store, tmp_path, dataset_params=longer, trainer_params=short).train().lead == 3


SMALLER = {
    "lon=[-180, 180], lat=[-80, 80]": "lon=[120, -80], lat=[-40, 40]",
    "resolution = 2": "resolution = 8",
    '"epochs": 500': '"epochs": 1, "num_workers": 0',
}


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.parametrize("source", ["page", "document"])
def test_the_examples_run(tmp_path, repository, shared, source):
    """The page's, and the first of the users' document with its imports changed."""
    page = (repository / "docs" / "sst.md").read_text(encoding="utf-8")
    _, script, judge = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    if source == "document":
        texts = (path.read_text(encoding="utf-8") for path in (shared / "seeds").iterdir())
        (document,) = (text for text in texts if text.lstrip().startswith("# BaseTrainer"))
        example = re.findall(r"```python\n(.*?)```", document, re.DOTALL)[0]
        script = re.sub(r"from src\.[\w.]+ import", "from vrtspike.sst import", example)
    for large, small in SMALLER.items():
        assert script.count(large) == 1
        script = script.replace(large, small)
    # Beside a small download.
    write_example(tmp_path / "data" / "era5", Globe(years=6, step=8.0, south=-56.0))
    environment = {name: v for name, v in os.environ.items() if name != "VRTSPIKE_ERA5"}
    output = subprocess.check_output(
        [sys.executable, "-c", script + judge], cwd=tmp_path, env=environment, text=True
    )
    assert output.count("========== RATransformer, Global ==========") == 1
    assert "epoch 1: 0:" in output
    assert "too few start months to tell from" in output  # in a single year
    assert "persistence" in (tmp_path / "scores.csv").read_text()

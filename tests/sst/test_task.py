"""The task of temperatures: presets, prepared or refused data, networks by name."""

from __future__ import annotations

import json

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from vrtspike.analysis.evaluation_files import write_evaluation
from vrtspike.config.run_schema import unchanged_weights_note
from vrtspike.io.files import read_json
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.published import PublishedRun
from vrtspike.sst import task
from vrtspike.sst.model import RecursiveAttentionTransformer, build_sst_model
from vrtspike.sst.settings import SSTSettings
from vrtspike.sst.task import open_split
from vrtspike.staleness.source_digests import code_digests
from vrtspike.staleness.training_code import training_code
from vrtspike.system.errors import DataError
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.workers import WorkerCounts

DATA = {
    "AREA": {"NAME": "Pacific", "LON": [120, -80], "LAT": [-40, 40]},
    "RESOLUTION": 8,
    "YEARS": {"TRAIN": [1980, 1984], "VAL": [1985, 1986], "TEST": [1987, 1988]},
    "SEQ_LEN": 3,
    "LEAD": 2,
}


def settings(**data) -> SSTSettings:
    return SSTSettings.model_validate({"TASK": "sst", "DATA": DATA | data})


def test_presets_with_equal_data_share_a_folder():
    folder = task.data_folder(settings())
    assert folder.startswith("sst_Pacific_8_")
    assert task.data_folder(settings(SEQ_LEN=6, LEAD=1, OFFSET=2)) == folder
    others = [
        settings(RESOLUTION=16),
        settings(ROOT="data/other"),
        settings(YEARS=None),
        settings(GENERATE={"SEED": 1}),
        settings(AREA=DATA["AREA"] | {"LAT": [-40, 32]}),
    ]
    assert len({folder, *map(task.data_folder, others)}) == 6


def test_a_preset_prepares_its_region(download, tmp_path):
    output: list[str] = []
    manifest = tmp_path / "dataset.json"
    task.prepare(settings(ROOT=str(download)), manifest, output.append)
    assert "108 months of" in output[-1]
    assert "10 x 20" in output[-1]
    assert task.dataset_digest(manifest) == json.loads(manifest.read_text())["digest"]
    result = open_split(settings(), manifest, "val")
    assert (len(result), result[0]["past"].shape) == (24 - 4, (3, 10, 20))
    task.require_data(manifest, settings())
    with pytest.raises(DataError, match=r"years of val have 24 months, .* but a sample takes 26"):
        task.require_data(manifest, settings(SEQ_LEN=24))


def test_a_globe_is_generated_beside_the_prepared_data(tmp_path):
    digests = set()
    for seed in (0, 5):
        preset = settings(
            GENERATE={"YEARS": 4, "SEED": seed}, YEARS=None, ROOT=str(tmp_path / "no")
        )
        manifest = tmp_path / f"{seed}/dataset.json"
        task.prepare(preset, manifest, print)
        digests.add(task.dataset_digest(manifest))
        assert task.data_files(preset) == ()
        assert task.statistics(preset, manifest)["years"]["TEST"] == [1983, 1983]
    assert len(digests) == 2
    assert not (tmp_path / "no").exists()


def test_the_network_is_built_by_name_for_the_cells_of_a_store(store):
    model = {"D_MODEL": 16, "NUM_HEADS": 2, "RECURSION_DEPTH": 3}
    preset = SSTSettings.model_validate({"TASK": "sst", "DATA": DATA, "MODEL": model})
    network = build_sst_model(preset, store)
    assert isinstance(network, RecursiveAttentionTransformer)
    assert network.recursion_depth == 3
    assert np.array_equal(network.sea.numpy(), store.fields["sea"].values)
    output = network.eval()(torch.zeros(1, 3, *store.grid.shape), torch.tensor([0]))
    assert output.shape == (1, 2, *store.grid.shape)


def test_a_run_starts_from_the_weights_that_a_preset_names(store, tmp_path):
    model = {"D_MODEL": 16, "NUM_HEADS": 2, "NUM_LAYERS": 1, "DIM_FEEDFORWARD": 8}
    path = tmp_path / "weights.safetensors"
    preset = SSTSettings.model_validate(
        {"TASK": "sst", "DATA": DATA, "MODEL": model | {"PRETRAINED": str(path)}}
    )
    assert task.training_weights(preset) == {"MODEL.PRETRAINED": path}
    folder = {"TASK": "sst", "DATA": DATA, "MODEL": model | {"PRETRAINED": str(tmp_path)}}
    named = task.training_weights(SSTSettings.model_validate(folder))
    assert named == {"MODEL.PRETRAINED": path}
    assert task.training_weights(settings()) == {}
    before = build_sst_model(preset, store)
    torch.nn.init.normal_(before.head.weight)
    save_file(before.state_dict(), path)
    ranks = DistributedContext(0, 0, 1, 1, torch.device("cpu"))
    kept = preset.model_copy(update={"TRAIN": preset.TRAIN.model_copy(update={"MAX_STEPS": 0})})
    for chosen, trains in ((preset, True), (kept, False)):
        run = RunIdentity("sea", chosen, str(store.path), "")
        built = task.build(run, ranks, WorkerCounts(1, 1, 0, 0))
        assert torch.equal(built.model.head.weight, before.head.weight)
        assert (next(built.training_batches.stream(0, 1, 1), None) is not None) == trains
        assert (built.validation_batches is not None) == trains


def test_the_network_is_code_of_training_and_evaluation(repository):
    """It is named by a text, and imported when it is made."""
    scripts, network = repository / "scripts", "sst/model.py"
    assert network in training_code(scripts / "train.py", "sst")
    assert network not in training_code(scripts / "train.py", "deblurring")
    uses = ["vrtspike.sst.task.evaluate"]
    assert "vrtspike/sst/model.py" in code_digests(scripts / "evaluate.py", dynamic_uses=uses)


def test_a_gain_is_of_the_leads_at_which_both_have_a_value(store, tmp_path):
    run = PublishedRun("sea", settings(), str(store.path), "0123")
    job = EvaluationJob(tmp_path, run, store.path, tmp_path, torch.device("cpu"))
    columns = ["frame", "sequence", "rmse_baseline", "rmse", "acc_baseline", "acc"]
    rows = [("a", "1", 0.5, 0.25, np.nan, 0.5), ("b", "1", np.nan, 0.75, np.nan, 0.25)]
    table = pd.DataFrame(rows, columns=columns)
    result = write_evaluation(job, "test", table, table, {})["metrics"]
    assert result["rmse"] == {"baseline": 0.5, "forecast": 0.25, "gain": 0.25}
    # Where none has both, each stands for itself.
    assert result["acc"] == {"baseline": None, "forecast": 0.375, "gain": None}


@pytest.mark.slow
def test_values_of_validation_years_carry_a_warning(store, tmp_path):
    model = {"D_MODEL": 16, "NUM_HEADS": 2, "NUM_LAYERS": 1, "DIM_FEEDFORWARD": 8}
    values = {
        "TASK": "sst",
        "DATA": DATA | {"SEQ_LEN": 12},
        "MODEL": model | {"PRETRAINED": "results/train/other"},
        "TRAIN": {"MAX_STEPS": 0},
        "TEST": {"SPLIT": "val"},
    }
    preset = SSTSettings.model_validate(values)
    weights = tmp_path / "weights.safetensors"
    network = build_sst_model(preset, store)
    # An untrained one says that anomalies stay.
    torch.nn.init.normal_(network.head.weight)
    save_file(network.state_dict(), weights)
    run = PublishedRun("sea", preset, str(store.path), "0123")
    cpu = torch.device("cpu")
    output = task.evaluate(EvaluationJob(weights, run, store.path, tmp_path / "out", cpu))
    table = pd.read_csv(tmp_path / "out/sequences.csv")
    assert (table["rmse"] > 1.1 * table["rmse_persistence"]).all()
    summary = read_json(tmp_path / "out/summary.json")
    assert summary["model_seconds_per_frame"] > 0
    chosen, kept = summary["warnings"]
    assert chosen.startswith("chosen on the validation split: validation looked at it")
    assert kept == unchanged_weights_note("results/train/other")
    for warning in (chosen, kept):
        assert warning in (tmp_path / "out/metrics.html").read_text()
    assert matplotlib.image.imread(tmp_path / "out/pictures/error_maps.png").std() > 0.05
    # Of 11 start months.
    assert "too few start months to tell from " in output[1]
    assert summary["leads"][0]["p"] is summary["leads"][0]["low_k"] is None
    assert "best possible" not in (tmp_path / "out/metrics.html").read_text()


@pytest.mark.slow
def test_evaluations_of_generated_data_show_the_best_possible_forecast(tmp_path):
    model = {"D_MODEL": 16, "NUM_HEADS": 2, "NUM_LAYERS": 1, "DIM_FEEDFORWARD": 8}
    data = DATA | {"GENERATE": {"YEARS": 8, "SEED": 3}, "YEARS": None}
    settings = SSTSettings.model_validate({"TASK": "sst", "DATA": data, "MODEL": model})
    manifest = tmp_path / "data/dataset.json"
    task.prepare(settings, manifest, print)
    weights = tmp_path / "weights.safetensors"
    save_file(
        build_sst_model(settings, open_split(settings, manifest, "test").store).state_dict(),
        weights,
    )
    run = PublishedRun("sea", settings, str(manifest), "0123")
    output = tmp_path / "out"
    task.evaluate(EvaluationJob(weights, run, manifest, output, torch.device("cpu")))
    page = (output / "metrics.html").read_text()
    assert "best possible forecast: the expectation of the generated temperature" in page
    leads = read_json(output / "summary.json")["leads"]
    table = pd.read_csv(output / "sequences.csv")
    for lead, error in zip(leads, table["rmse_best_possible"], strict=True):
        assert lead["best_possible_k"] == pytest.approx(error, rel=1e-3)
        # The globe of this seed: of another, this would be a forecast like any other.
        assert error < 0.9 * lead["baseline_k"]

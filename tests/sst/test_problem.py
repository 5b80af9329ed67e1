"""What the problem brings: presets, data that are generated or refused, networks by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from vrtspike.config.loading import load_preset
from vrtspike.errors import ConfigError, DataError
from vrtspike.provenance import code_digests
from vrtspike.runs.code import training_code
from vrtspike.sst import problem
from vrtspike.sst.model import RecursiveAttentionTransformer
from vrtspike.sst.models import build_model
from vrtspike.sst.prepared import generate, open_split
from vrtspike.sst.settings import GenerateSettings, SSTSettings

DATA = {
    "AREA": {"NAME": "Pacific", "LON": [120, -80], "LAT": [-40, 40]},
    "RESOLUTION": 8,
    "YEARS": {"TRAIN": [1980, 1984], "VAL": [1985, 1986], "TEST": [1987, 1988]},
    "SEQ_LEN": 3,
    "LEAD": 2,
}


def settings(**data) -> SSTSettings:
    return SSTSettings.model_validate({"TASK": "sst", "DATA": DATA | data})


def test_shipped_presets_differ_in_what_the_demo_needs(repository):
    whole, demo = (
        load_preset(repository / f"config/presets/{name}.yaml") for name in ("sst", "sst_demo")
    )
    assert isinstance(whole, SSTSettings)
    assert isinstance(demo, SSTSettings)
    assert whole.DATA.GENERATE is None
    assert demo.DATA.GENERATE == GenerateSettings(YEARS=40)
    assert demo.DATA.ROOT != whole.DATA.ROOT


def test_data_are_shared_by_presets_that_ask_for_the_same():
    folder = problem.data_folder(settings())
    assert folder.startswith("sst_Pacific_8_")
    assert problem.data_folder(settings(SEQ_LEN=6, LEAD=1, OFFSET=2)) == folder
    others = [
        settings(RESOLUTION=16),
        settings(ROOT="data/other"),
        settings(YEARS=None),
        settings(GENERATE={"SEED": 1}),
        settings(AREA=DATA["AREA"] | {"LAT": [-40, 32]}),
    ]
    assert len({folder, *map(problem.data_folder, others)}) == 6


def test_a_preset_prepares_its_region(download, tmp_path):
    told: list[str] = []
    manifest = tmp_path / "dataset.json"
    problem.prepare(settings(ROOT=str(download)), manifest, told.append)
    assert "108 months of" in told[-1]
    assert "10 x 20" in told[-1]
    assert problem.dataset_digest(manifest) == json.loads(manifest.read_text())["digest"]
    samples = open_split(settings(), manifest, "val")
    assert (len(samples), samples[0]["past"].shape) == (24 - 4, (3, 10, 20))
    problem.check_data(manifest, settings())
    with pytest.raises(DataError, match=r"years of val have 24 months, but a sample takes 26"):
        problem.check_data(manifest, settings(SEQ_LEN=24))


def test_files_are_generated_beside_nothing_else(tmp_path):
    root = tmp_path / "globe"
    generate(root, GenerateSettings(YEARS=2))
    first = (root / "sst.nc").read_bytes()
    generate(root, GenerateSettings(YEARS=2, SEED=5))
    assert (root / "sst.nc").read_bytes() != first
    (root / "generated.json").unlink()
    with pytest.raises(DataError, match=r"globe: DATA\.GENERATE would write here"):
        generate(root, GenerateSettings(YEARS=2))


def test_the_network_is_found_by_name_and_knows_its_cells(store):
    model = SSTSettings.model_validate(
        {"TASK": "sst", "MODEL": {"D_MODEL": 16, "NUM_HEADS": 2, "RECURSION_DEPTH": 3}}
    ).MODEL
    network = build_model(model, store, 3, 2)
    assert isinstance(network, RecursiveAttentionTransformer)
    assert network.recursion_depth == 3
    assert np.array_equal(network.sea.numpy(), store.sea)
    said = network.eval()(torch.zeros(1, 3, *store.grid.shape), torch.tensor([0]))
    assert said.shape == (1, 2, *store.grid.shape)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"TRAIN": {"PROGRESSIVE": [{"CROP_SIZE": 8, "EPOCHS": 1}]}}, "PROGRESSIVE belongs to"),
        ({"MODEL": {"TYPE": "vrt_spike"}}, "expected one of recursive_attention"),
        ({"DATA": {"YEARS": {"TRAIN": [1980, 1990], "VAL": [1985, 1986], "TEST": [1991, 1992]}}},
         "TRAIN|train"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path, section, said):
    path = tmp_path / "a.yaml"
    path.write_text(json.dumps({"TASK": "sst", **section}))
    with pytest.raises(ConfigError, match=said):
        load_preset(path)


def test_memory_is_counted_without_data():
    few, many = (
        problem.memory(SSTSettings.model_validate({"TASK": "sst", "DATA": DATA | {"SEQ_LEN": n}}))
        for n in (3, 12)
    )
    height, width = 12, 20  # whole patches
    # What a sample is read from is kept, nine months more of it, for the first layer.
    assert (many[1] - few[1]) * 2**30 == 4 * 9 * height * width
    wide = SSTSettings.model_validate({"TASK": "sst", "DATA": DATA, "MODEL": {"D_MODEL": 128}})
    assert problem.memory(wide)[0] > 2 * few[0]


def test_the_network_is_code_of_training_and_evaluation(repository):
    """It is named by a text, and imported when it is made."""
    scripts = repository / "scripts"
    assert "sst/model.py:Block" in training_code(scripts / "train.py", "sst")
    assert "sst/model.py:Block" not in training_code(scripts / "train.py", "deblurring")
    uses = ["vrtspike.sst.problem.evaluate"]
    assert "vrtspike/sst/model.py" in dict(code_digests(scripts / "evaluate.py", uses=uses))

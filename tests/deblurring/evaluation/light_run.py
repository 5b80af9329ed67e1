"""A small model that can be exported, on the small data set."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.deblurring.evaluation.conftest import SmallRun
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.models import build_model
from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import file_digest, write_json
from vrtspike.runs.identity import RunIdentity, write_statistics


def write_light_run(small_run: SmallRun, train: Path, *, use_spike: bool = True) -> None:
    """Write the result folder of a ``spike_nafnet`` with random weights."""
    chosen = small_run.settings.model_dump(mode="json", exclude_unset=True)
    naf = {"WIDTH": 8, "ENCODER_BLOCKS": [1], "MIDDLE_BLOCKS": 1, "DECODER_BLOCKS": [1]}
    naf["NEIGHBOUR_BINS"] = 2
    chosen["MODEL"] = {"TYPE": "spike_nafnet", "NAF": naf, "USE_SPIKE": use_spike}
    chosen["TEST"]["TILE"]["FRAMES"] = 8  # whole clips, as the file computes them
    settings = Settings.model_validate(chosen)
    torch.manual_seed(3)
    network = build_model(settings)
    for parameter in network.parameters():  # layers that start at zero shall do something
        torch.nn.init.normal_(parameter, std=0.1)
    train.mkdir(parents=True)
    save_file(network.state_dict(), train / "weights.safetensors")
    dataset = small_run.dataset
    digest = load_dataset(dataset).digest
    RunIdentity(train.name, settings, str(dataset), "0123456789ab", digest).write(train)
    write_statistics(train)
    names = ("weights.safetensors", "statistics.json")
    record = {
        "status": "finished",
        "name": train.name,
        "fingerprint": "0123456789ab",
        "host": "node-17",
        "digests": {name: file_digest(train / name) for name in names if (train / name).is_file()},
    }
    write_json(train / "run.json", record)

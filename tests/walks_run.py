"""Uses what the walks of CONTRIBUTING.md have added, in a copy of the project (its PYTHONPATH).

Called as ``walks_run.py FOLDER``; FOLDER holds raw data in the added layout under ``data`` and gets
everything else. Prints what was found as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch

from vrtspike.analysis.performance import analyze_run
from vrtspike.deblurring.data.clips.dataset import merge_dataset
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.deblurring.evaluation.evaluate import evaluate_run
from vrtspike.deblurring.settings import Settings
from vrtspike.files import write_json
from vrtspike.monitoring.records import read_records
from vrtspike.runs.publish import publish
from vrtspike.runs.published import read_published

BINS = 4
PRESET = """
DATA: {CROP_SIZE: 32, CLIP_LEN: 2, K: 4, LAYOUT: reds}
MODEL: {TYPE: residual_3d}
DATALOADER: {TRAIN_WORKERS: 0, VAL_WORKERS: 0}
TRAIN: {MAX_STEPS: 2, GRADIENT_ACCUMULATION_STEPS: 1, PRECISION: "32"}
LOSS: {EDGE: {WEIGHT: 0.5, DELTA: 0.01}}
TEST: {METRICS: [mae, psnr], NUM_WORKERS: 0, TILE: {SIZE: 96, OVERLAP: 16}}
"""


def main() -> None:
    """Raw data to findings."""
    folder = Path(sys.argv[1])
    found = survey(folder / "data", ["train", "test"], "blur")
    dataset = make_dataset(folder, found["sequences"])
    preset = folder / "small.yaml"
    preset.write_text(PRESET, encoding="utf-8")
    command = ["--run-dir", folder / "run", "--preset", preset, "--dataset", dataset]
    subprocess.run([sys.executable, "scripts/train.py", *command], check=True, stdout=sys.stderr)
    publish(folder / "run", folder / "published")
    run = read_published(folder / "published")
    summary = evaluate_run(
        folder / "published/weights.safetensors",
        run,
        dataset,
        folder / "evaluated",
        torch.device("cpu"),
        lambda done, total: None,
    )
    findings = analyze_run(folder / "published", folder / "analysed")
    steps = read_records(folder / "published/metrics.jsonl")
    result = {
        "layout": found["layout"],
        "settings": run.settings.model_dump(mode="json"),
        "losses": [record["losses"] for record in steps if record["kind"] == "train"],
        "parameters": summary["parameters"],
        "metrics": summary["metrics"],
        "findings": {finding.symptom: dict(finding.keys) for finding in findings},
        "table": (folder / "evaluated/metrics.html").read_text(encoding="utf-8"),
    }
    print(json.dumps(result))


def make_dataset(folder: Path, sequences: list[dict[str, str]]) -> Path:
    """The data set of the raw files under ``data``."""
    stores, manifests = folder / "stores", []
    for sequence in sequences:
        split, name = sequence["split"], sequence["name"]
        manifest = ingest_sequence(folder / "data", split, name, blur_dir="blur", source_version="")
        assert manifest["faults"] == []
        ingested = stores / "ingest" / split / f"{name}.json"
        write_json(ingested, manifest)
        manifests.append(stores / split / f"{name}.json")
        build_store(folder / "data", ingested, BINS, manifests[-1])
    path = stores / "dataset.json"
    write_json(path, merge_dataset(manifests, dataset="reds", bins=BINS, folder=stores))
    assert Settings().MODEL.TYPE == "vrt_spike"
    return path


if __name__ == "__main__":
    main()

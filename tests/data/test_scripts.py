"""The programs of this package, run as a user or a rule runs them."""

from __future__ import annotations

import csv
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from zlib import compress, crc32

import pytest

from tests.data.conftest import SEQUENCES
from tests.data.scenes import film
from vrtspike.data.alignment_table import ALIGNMENT_COLUMNS
from vrtspike.data.raw.spikes import read_spikes
from vrtspike.io.files import read_json
from vrtspike.io.images import write_png


@pytest.fixture
def script(repository):
    def run(name, *arguments, status=0):
        command = [sys.executable, repository / "scripts" / f"{name}.py", *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr

    return run


def folder_of(root: Path) -> tuple[str, str]:
    """The option for a folder of raw files."""
    return "--options", json.dumps({"root": str(root)})


def test_table_and_plot_of_where_exposures_lie(script, pristine_raw_data, tmp_path):
    survey = ("--survey", tmp_path / "survey.json", "--ingested", tmp_path / "ingest")
    script("survey", *folder_of(pristine_raw_data), "--dataset-name", "toy", "--output", survey[1])
    output = ("--threads", 2, "--output", tmp_path / "ingest/shards/0-of-1.json")
    script("ingest", *folder_of(pristine_raw_data), *survey, *output)
    for path in (tmp_path / "ingest").glob("t*/*.json"):
        manifest = read_json(path)  # rows are in the order of time nevertheless
        path.write_text(json.dumps({**manifest, "frames": manifest["frames"][::-1]}))
    table, plot = tmp_path / "alignment.csv", tmp_path / "alignment.svg"
    script("alignment_table", *survey, "--table", table, "--plot", plot)
    rows = list(csv.DictReader(table.open()))
    assert tuple(rows[0]) == ALIGNMENT_COLUMNS
    assert [row["sequence"] for row in rows[:3]] == ["GOPR0003_11_00"] * 3
    windows = [(int(row["t0"]), int(row["t1"])) for row in rows[:3]]
    assert windows == [(0, 88), (88, 176), (176, 264)]
    spikes = read_spikes(pristine_raw_data / "test/GOPR0003_11_00/spike/000002.dat", 48, 64)
    assert int(rows[1]["spike_count"]) == spikes.sum()
    assert all(abs(float(row["center"]) - float(row["expected_center"])) < 4 for row in rows)
    assert all(float(row["correlation"]) > 0.8 for row in rows)
    svg = plot.read_text()
    assert all(name in svg for name in SEQUENCES)


PRINT_MAX_MEMORY = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""A program that runs another one, and prints the largest memory of it in KiB."""


def test_a_shard_goes_on_when_a_picture_claims_a_huge_size(repository, script, dataset, tmp_path):
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc32(kind + data))

    survey = tmp_path / "survey.json"
    script("survey", *folder_of(dataset), "--dataset-name", "toy", "--output", survey)
    bomb = dataset / SEQUENCES[0] / "blur/000002.png"
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", compress(bytes(1000))) + chunk(b"IEND", b"")
    bomb.write_bytes(b"\x89PNG\r\n\x1a\n" + header + pixels)
    ingested, output = tmp_path / "ingest", tmp_path / "ingest/shards/0-of-1.json"
    command = [sys.executable, repository / "scripts/ingest.py", *folder_of(dataset)]
    command += ["--survey", survey, "--ingested", ingested, "--output", output]
    # A child of this process would report the memory of the tests before, which it is forked from.
    measuring = [sys.executable, "-c", PRINT_MAX_MEMORY, *map(str, command)]
    done = subprocess.run(measuring, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    manifests = {name: read_json(ingested / f"{name}.json") for name in SEQUENCES}
    (fault,) = manifests.pop(SEQUENCES[0])["faults"]
    assert fault.startswith(f"{bomb}: cannot be decoded")
    assert [len(manifest["frames"]) for manifest in manifests.values()] == [3] * len(manifests)
    assert [manifest["faults"] for manifest in manifests.values()] == [[]] * len(manifests)
    # The pixels would take 10.8 GB.
    assert int(done.stdout) < 3 * 2**20


def test_blurry_frames_are_not_taken_for_sharp_ones(script, raw_data_without_spikes, tmp_path):
    message = script(
        "simulate", "--source", raw_data_without_spikes, "--output", tmp_path / "out", status=2
    )
    assert "found blurry frames beside sharp ones (layout spk_gopro)" in message


def test_simulating_many_folders_names_every_fault_at_the_end(script, tmp_path):
    for name, count in (("short", 2), ("broken", 4), ("sound", 4)):
        for number, frame in enumerate(film(0, count, 32, 32)):
            write_png(tmp_path / "frames/train" / name / f"{number}.png", frame)
    (tmp_path / "frames/train/broken/1.png").write_bytes(b"no picture")
    command = ["simulate", "--source", tmp_path / "frames", "--output", tmp_path / "out"]
    command += ["--frames-per-exposure", 3]
    gap = tmp_path / "frames/train/sound/5.png"
    write_png(gap, film(0, 1, 32, 32)[0])
    assert "nothing was written (1):" in script(*command, status=2)
    assert not (tmp_path / "out").exists()
    gap.unlink()
    idle = script(*command, "--sequence", "a", status=2)
    assert "found --sequence with --source, which changes nothing there" in idle
    frames = ["simulate", "--frames", tmp_path / "frames/train/sound", "--output", tmp_path / "out"]
    idle = script(*frames, "--layout", "reds", "--splits", "train", status=2)
    assert "found --splits and --layout with --frames, which changes nothing there" in idle
    assert "expected 1 or more" in script(*command, "--frames-per-exposure", 0, status=2)
    assert "error: --theta: Input should be greater than 0" in script(
        *command, "--theta", 0, status=2
    )
    in_place = script(*command, "--output", tmp_path / "frames", status=2)
    assert "sound: the output would replace these frames" in in_place
    message = script(*command, status=2)
    assert "could not be simulated (2):" in message
    assert "broken/1.png: not a readable image" in message
    assert "short: 2 frames do not fill one exposure" in message
    spikes = tmp_path / "out/train/sound/spike"
    assert (spikes / "000001.dat").is_file()
    # Files that are not written again are nobody's to remove.
    (spikes / "000002.dat").touch()
    assert "spike: found 000002.dat, expected nothing but the 1 files" in script(*command, status=2)
    assert (spikes / "000002.dat").is_file()


def test_pairs_of_which_frames_are_missing_are_not_simulated(script, dataset, tmp_path):
    for folder in dataset.glob("*/*/spike"):
        shutil.rmtree(folder)
    command = ["simulate", "--pairs", dataset, "--output", tmp_path / "out"]
    sequence = dataset / SEQUENCES[0]
    (sequence / "sharp/000002.png").unlink()
    assert "has no partner in sharp" in script(*command, status=2)
    assert not (tmp_path / "out").exists()  # of the other sequences, either
    shutil.rmtree(sequence / "blur")
    message = script(*command, status=2)
    assert f"nothing was simulated (1):\n  - {SEQUENCES[0]}: no blurry frames" in message
    assert not (tmp_path / "out").exists()
    # A split that nobody asked for need not be there.
    shutil.rmtree(sequence.parent)
    split = SEQUENCES[0].partition("/")[0]
    output = script(*command)
    assert f"left out: {split}: no sequence folders" in output
    assert "spikes of 3 frames" in output
    assert f"{split}: no sequence folders" in script(*command, "--splits", split, "test", status=2)

"""Exported models, computed by ONNX Runtime beside PyTorch."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import onnx

from tests.small_run import arrays, private_words, write_light_run
from vrtspike.commands.main import run_command
from vrtspike.io.images import read_rgb, write_png
from vrtspike.restoration.onnx_export import TOLERANCE, export_model
from vrtspike.restoration.trained import load
from vrtspike.system.errors import ConfigError, DataError, RunError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def train(small_run, tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("light") / "small_light"
    write_light_run(small_run, folder)
    return folder


@pytest.fixture(scope="module")
def exported(train, tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    assert not run_command(["export", str(train), "-o", str(path)])
    return path


def test_clips_of_odd_sizes_are_restored_as_by_pytorch(train, exported, sequence):
    frames, spikes = arrays(sequence)
    run, other = load(train, device="cpu"), load(exported)
    assert (other.run.name, other.weights) == (run.run.name, run.weights)
    assert run.limits is not None
    assert other.limits == run.limits
    for rows, columns, count in ((26, 34, 5), (14, 58, 1)):
        clip = frames[:count, :rows, :columns]
        sensed = [part[:, : rows // 2, : columns // 2] for part in spikes[:count]]
        found, expected = other.restore(clip, sensed), run.restore(clip, sensed)
        # A value beside the middle between two grey values may fall to either side.
        assert np.abs(found.astype(int) - expected).max() <= 1
        assert (found != expected).mean() < 1e-3
        assert (found != clip).mean() > 0.5
    with_other = other.restore(clip, [part[::-1] for part in sensed])
    assert (with_other != found).any()


def test_a_pack_in_half_precision_is_exported_as_it_computes(train, tmp_path, sequence):
    assert not run_command(["pack", str(train), "-o", str(tmp_path / "half"), "--half"])
    assert not run_command(["export", str(tmp_path / "half"), "-o", str(tmp_path / "half.onnx")])
    half, found = load(tmp_path / "half", device="cpu"), load(tmp_path / "half.onnx")
    assert found.weights == half.weights != load(train, device="cpu").weights
    clip = arrays(sequence)
    np.testing.assert_allclose(found.restore(*clip), half.restore(*clip).astype(int), atol=1)


def test_frames_are_restored_by_the_command(exported, tmp_path, capsys, sequence):
    words = ["restore", exported, sequence / "blur", "--spikes", sequence / "spike"]
    assert run_command([*map(str, words), "-o", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out/restored").glob("*.png"))) == 5
    assert "float32" in capsys.readouterr().out
    record = json.loads((tmp_path / "out/restore.json").read_text())
    assert "small_light" in json.dumps(record)


def test_frames_of_16_bits_are_rounded_and_that_is_said(exported, tmp_path, capsys, sequence):
    for path in (sequence / "blur").iterdir():
        write_png(tmp_path / "fine" / path.name, 257 * read_rgb(path).astype(np.uint16))
    words = ["restore", exported, tmp_path / "fine", "--spikes", sequence / "spike"]
    assert run_command([*map(str, words), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.count("an ONNX model takes 8 bits") == 1


@pytest.mark.endurance
def test_a_model_without_spikes_is_exported_too(small_run, tmp_path, sequence):
    write_light_run(small_run, tmp_path / "plain", use_spike=False)
    run = load(tmp_path / "plain", device="cpu")
    assert export_model(run, tmp_path / "plain.onnx") <= TOLERANCE
    frames, _ = arrays(sequence)
    found = load(tmp_path / "plain.onnx").restore(frames[:, :22])
    np.testing.assert_allclose(found, run.restore(frames[:, :22]).astype(int), atol=1)


def test_vrt_is_refused_with_the_reason(small_run, tmp_path):
    with pytest.raises(ConfigError, match=r"deformable convolutions.*spike_nafnet"):
        export_model(load(small_run.train, device="cpu"), tmp_path / "vrt.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.endurance
def test_a_file_that_computes_something_else_is_not_written(train, tmp_path):
    """The comparison sees a network that was exported with other statistics."""
    model = load(train, device="cpu")
    changed = replace(model.statistics, mean=model.statistics.mean + 0.1)
    model = replace(model, statistics=changed)
    with pytest.raises(RunError, match=r"differs from PyTorch by .*nothing was written"):
        export_model(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_is_refused(train, exported, tmp_path, sequence):
    frames, spikes = arrays(sequence)
    with pytest.raises(DataError, match="4 times as large as the sensor; this model takes 2"):
        load(exported).restore(frames, [part[:, ::2, ::2] for part in spikes])
    with pytest.raises(ConfigError, match="small_light: is an ONNX file already"):
        export_model(load(exported), tmp_path / "again.onnx")
    with pytest.raises(ConfigError, match="is computed on the CPU in float32, found device cuda"):
        load(exported, device="cuda")
    words = ["restore", str(exported), str(sequence / "blur"), "-o", str(tmp_path / "out")]
    with pytest.raises(ConfigError, match="found device None and precision bfloat16; leave them"):
        run_command([*words, "--precision", "bfloat16"])
    with pytest.raises(ConfigError, match="found device cuda and precision auto; leave them"):
        run_command([*words, "--device", "cuda"])
    (tmp_path / "damaged.onnx").write_bytes(exported.read_bytes()[:-2000])
    for name in ("nothing.onnx", "damaged.onnx"):
        with pytest.raises(
            RunError, match=rf"{name}: cannot be read as an ONNX file of .*export RUN"
        ):
            load(tmp_path / name)
    with pytest.raises(ConfigError, match=r"--output: found model, expected a file named \*\.onnx"):
        run_command(["export", str(train), "-o", "model"])


def test_no_byte_of_the_file_is_of_this_machine_or_its_user(small_run, exported):
    contents = exported.read_bytes()
    assert not [word for word in private_words(small_run) if word in contents]


def test_changed_bytes_are_noticed_wherever_they_are(exported, tmp_path, sequence):
    whole, path = exported.read_bytes(), tmp_path / "flipped.onnx"
    places = [len(whole) // 3, len(whole) // 2, whole.index(b"vrtspike-sha256:") + 20]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        out = tmp_path / "out"
        words = ["restore", str(path), str(sequence / "blur"), "-o", str(out)]
        with pytest.raises(RunError, match=r"flipped\.onnx: was changed .*expected|is missing in"):
            run_command([*words, "--spikes", str(sequence / "spike")])
        assert not out.exists()
    path.write_bytes(whole.replace(b"vrtspike-sha256:", b"vrtspike-sha255:"))
    with pytest.raises(RunError, match="vrtspike_digest is missing in its metadata"):
        load(path)


def test_a_file_of_an_earlier_version_has_no_digest(exported, tmp_path, sequence):
    model = onnx.load(exported)
    for entry in [*model.metadata_props]:
        if entry.key == "vrtspike_digest":
            model.metadata_props.remove(entry)
        else:
            entry.value = json.dumps(json.loads(entry.value) | {"schema": 1})
    onnx.save(model, tmp_path / "earlier.onnx")
    clip = arrays(sequence)
    expected = load(exported).restore(*clip)
    np.testing.assert_array_equal(load(tmp_path / "earlier.onnx").restore(*clip), expected)


def test_the_page_s_lines_restore_without_pytorch(repository, exported, tmp_path, sequence):
    page = (repository / "docs/commands.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for link, target in (("blur", sequence / "blur"), ("spike", sequence / "spike")):
        (tmp_path / link).symlink_to(target)
    shutil.copy(exported, tmp_path / "model.onnx")
    for page_has, here in (("360, 640", "24, 32"), ("bins=32, sharp=40", "bins=4, sharp=24")):
        assert page_has in example
        example = example.replace(page_has, here)
    program = f"import sys\nsys.modules['torch'] = None\n{example}\nnp.save('out.npy', restored)"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    found = np.load(tmp_path / "out.npy").transpose(0, 2, 3, 1)
    expected = load(exported).restore(*arrays(sequence))
    np.testing.assert_allclose(255 * found.clip(0, 1), expected, atol=1)

"""Models in ONNX files: their inputs, their digest, and use without PyTorch."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import onnx

from tests.helpers.small_run import arrays
from vrtspike.commands.main import run_command
from vrtspike.io.images import read_rgb, write_png
from vrtspike.restoration.loading import load
from vrtspike.restoration.onnx_export import export_model
from vrtspike.system.errors import ConfigError, DataError, RunError

pytestmark = pytest.mark.slow


def test_frames_are_restored_by_the_command(exported, tmp_path, capsys, sequence):
    words = ["restore", exported, sequence / "blur", "--spikes", sequence / "spike"]
    assert run_command([*map(str, words), "-o", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out/restored").glob("*.png"))) == 5
    assert "float32" in capsys.readouterr().out
    record = json.loads((tmp_path / "out/restore.json").read_text())
    assert "small_light" in json.dumps(record)


def test_frames_of_16_bits_are_rounded_with_a_note(exported, tmp_path, capsys, sequence):
    for path in (sequence / "blur").iterdir():
        write_png(tmp_path / "fine" / path.name, 257 * read_rgb(path).astype(np.uint16))
    words = ["restore", exported, tmp_path / "fine", "--spikes", sequence / "spike"]
    assert run_command([*map(str, words), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.count("an ONNX model takes 8 bits") == 1


def test_wrong_inputs_are_refused(light_run, exported, tmp_path, sequence):
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
        run_command(["export", str(light_run), "-o", "model"])


def test_changed_bytes_are_detected(exported, tmp_path, sequence):
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


def test_the_example_of_the_page_restores_without_pytorch(repository, exported, tmp_path, sequence):
    page = (repository / "docs/api.md").read_text(encoding="utf-8")
    section = page.split("\n## A model in an ONNX file\n", 1)[1].split("\n## ", 1)[0]
    (example,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for link, target in (("blur", sequence / "blur"), ("spike", sequence / "spike")):
        (tmp_path / link).symlink_to(target)
    shutil.copy(exported, tmp_path / "model.onnx")
    for page_has, here in (("360, 640", "24, 32"), ("bins=32, sharp=40", "bins=4, sharp=24")):
        assert page_has in example
        example = example.replace(page_has, here)
    program = f"import sys\nsys.modules['torch'] = None\n{example}\nnp.save('out.npy', restored)"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    restored = np.load(tmp_path / "out.npy").transpose(0, 2, 3, 1)
    expected = load(exported).restore(*arrays(sequence))
    np.testing.assert_allclose(255 * restored.clip(0, 1), expected, atol=1)

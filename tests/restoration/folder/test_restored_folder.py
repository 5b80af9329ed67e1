"""Restoration into a folder from Python: files, metrics, warnings and the representation."""

from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest

from vrtspike.commands.main import run_command
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import ConfigError

# Random weights make frames worse.
pytestmark = pytest.mark.filterwarnings("ignore:warning. frames that came out worse")


def test_files_metrics_and_the_representation(small_run, model, sequence, tmp_path, capsys):
    output = tmp_path / "out"
    result = model.restore_folder(
        sequence / "blur", sequence / "spike", output, sharp=sequence / "sharp", video=True
    )
    expected = model.restore(sequence / "blur", sequence / "spike")
    np.testing.assert_array_equal(np.stack([read_rgb(path) for path in result.files]), expected)
    assert (output / "restored.mp4").is_file()
    assert result.record == json.loads((output / "restore.json").read_text())
    assert list(result.metrics.index) == [path.stem for path in result.files]
    assert list(result.metrics["psnr"]) == [frame["psnr"] for frame in result.record["frames"]]
    # No call follows that could add notes, so that the command prints the same.
    words = ["restore", small_run.train, sequence / "blur", "--spikes", sequence / "spike"]
    words += ["--sharp", sequence / "sharp", "--device", "cpu", "-o", tmp_path / "command"]
    assert run_command(list(map(str, words))) == 0
    printed = capsys.readouterr().out.splitlines()
    lines = repr(result).splitlines()
    assert lines[:2] == printed[:2]
    assert lines[0].startswith("PSNR, dB, mean: ")
    assert lines[-1].endswith(f"{output}; record: {output / 'restore.json'}")


def test_a_page_is_written_if_wanted(model, sequence, tmp_path):
    inputs = (sequence / "blur", sequence / "spike", tmp_path / "out")
    result = model.restore_folder(*inputs, page=True)
    assert (tmp_path / "out/index.html").is_file()
    assert "index.html" in result.record["written"]


def test_without_sharp_frames_metrics_come_from_the_spikes(model, sequence, tmp_path):
    result = model.restore_folder(str(sequence / "blur"), str(sequence / "spike"), tmp_path / "out")
    assert "psnr" not in result.metrics
    assert result.metrics["reblur"].notna().all()
    assert result.notes == []


def test_a_second_call_continues_and_notes_it(model, sequence, tmp_path):
    inputs = (sequence / "blur", sequence / "spike", tmp_path / "out")
    first = model.restore_folder(*inputs)
    dates = [path.stat().st_mtime_ns for path in first.files]
    first.files[2].unlink()
    second = model.restore_folder(*inputs)
    assert second.notes == ["4 of 5 frames are there already, restored before"]
    kept = [path.stat().st_mtime_ns for path in second.files]
    assert [kept[number] == dates[number] for number in range(5)] == [True, True, False, True, True]


def test_warnings_are_in_the_result_and_given_at_once(small_run, model, sequence, tmp_path):
    other = small_run.raw / "test/c/spike"
    with pytest.warns(UserWarning, match="spikes that do not fit"):
        result = model.restore_folder(sequence / "blur", other, tmp_path / "out")
    assert result.warnings[0].startswith("warning: spikes that do not fit (5):")
    assert "metrics from the spikes: left out" in repr(result)


def test_pictures_of_16_bits_keep_them_in_memory_and_on_disk(model, sequence, tmp_path):
    deep = shutil.copytree(sequence, tmp_path / "deep")
    for path in (deep / "blur").iterdir():
        cv2.imwrite(str(path), 257 * cv2.imread(str(path)).astype(np.uint16))
    with pytest.warns(UserWarning, match="16-bit values are taken with 65535 as white"):
        restored = model.restore(deep / "blur", deep / "spike")
    assert restored.dtype == np.uint16
    result = model.restore_folder(deep / "blur", deep / "spike", tmp_path / "out")
    assert "16-bit values" in result.notes[0]
    first = cv2.imread(str(result.files[0]), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(cv2.cvtColor(first, cv2.COLOR_BGR2RGB), restored[0])


def test_an_output_named_as_a_file_and_a_sensor_without_spikes_are_refused(
    model, sequence, tmp_path
):
    with pytest.raises(ConfigError, match=r"output: found .*out\.mp4, expected a folder"):
        model.restore_folder(sequence / "blur", sequence / "spike", tmp_path / "out.mp4")
    with pytest.raises(ConfigError, match="sensor: describes recorded spikes, and there are none"):
        model.restore_folder(
            sequence / "blur", None, tmp_path / "out", simulate_spikes=True, sensor=(24, 32)
        )
    assert list(tmp_path.iterdir()) == []

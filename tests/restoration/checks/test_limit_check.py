"""Recordings outside those that a model was trained on: dark, bright, of another sensor."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.data.raw.published import CONTEXT, frames
from tests.helpers.small_run import arrays
from tests.restoration.folder_runs import restore
from vrtspike.commands.main import run_command
from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.exposure import Exposure
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.io.images import luma, read_picture, shrink, write_png
from vrtspike.reporting.packing import pack_run
from vrtspike.restoration.checks import checked_clip
from vrtspike.restoration.checks.limit_check import compare_with_limits
from vrtspike.restoration.checks.no_reference import no_reference_metrics, unseen_agreement
from vrtspike.restoration.folder.frame_metrics import worse_frames_warnings
from vrtspike.restoration.folder.opened_request import open_request
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.inputs.clip_frames import ArrayFrames
from vrtspike.restoration.inputs.clip_spikes import SIMULATED, array_spikes
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.system.errors import DataError

OPTIONS = StoreOptions(bins=4)


def sensed(spikes: np.ndarray, factor: float) -> np.ndarray:
    """The spikes of a sensor with a threshold that is higher by a factor."""
    waiting = np.random.default_rng(0).uniform(0, factor, spikes.shape[1:])
    fired = np.floor((np.cumsum(spikes, axis=0) + waiting) / factor)
    return np.diff(fired, axis=0, prepend=np.floor(waiting / factor)[None]).astype(np.uint8)


def checked(model, sequence, *, factor: float = 1, shrink: int = 1, limits=None):
    """The check of a recording by another sensor."""
    blur, spikes = arrays(sequence)
    coarse = [sensed(part, factor)[:, ::shrink, ::shrink] for part in spikes]
    pictures = ArrayFrames(blur)
    clip = InputClip(pictures, array_spikes(pictures, coarse), OPTIONS)
    return compare_with_limits(limits or model.limits, clip)


@pytest.mark.parametrize(
    ("sensor", "outside", "is_pooled", "far_reason"),
    [
        ({}, [], False, None),
        ({"factor": 1.9}, ["gain", "mean rate"], False, None),
        ({"factor": 3.5}, ["gain", "mean rate"], True, None),
        ({"factor": 8.0}, ["gain", "mean rate"], True, "a spike stands for"),
        ({"shrink": 2}, ["frame size / sensor size"], False, None),
        ({"shrink": 4}, ["frame size / sensor size"], False, "the sensor is 4 times as coarse"),
    ],
    ids=["inside", "darker", "dark", "far too dark", "quarter", "eighth"],
)
def test_ranges_outside_the_limits_are_named_with_their_distance(
    model, sequence, sensor, outside, is_pooled, far_reason
):
    plain = checked(model, sequence)
    gain, _ = plain.recording.gain
    limits = replace(model.limits, gain=(gain / 2, gain), rate=plain.recording.rate)
    check = checked(model, sequence, **sensor, limits=limits)
    assert [re.split(r" [\d.e-]+, trained on ", text)[0] for text in check.messages] == outside
    assert check.is_pooled == is_pooled
    if "factor" in sensor:
        assert check.grain == pytest.approx(sensor["factor"], rel=0.1)
    if far_reason is None:
        check.require_near("frames")
    else:
        with pytest.raises(DataError, match=rf"^frames: far outside .*: {far_reason}"):
            check.require_near("frames")


def test_a_bright_recording_is_outside_and_not_refused(model, sequence):
    limits = RecordingLimits((8.0, 9.0), (0.02, 0.03), (2.0, 2.0), (56, 56))
    check = checked(model, sequence, limits=limits)
    gain, rate = check.messages
    assert re.fullmatch(r"gain \S+, trained on 8 to 9 \(0\.\d+ times the smallest\)", gain)
    assert re.fullmatch(r"mean rate \S+, trained on 0\.02 to 0\.03 \(\S+ times the largest\)", rate)
    check.require_near("frames")


def test_simulated_spikes_are_not_compared(model, sequence):
    blur, spikes = arrays(sequence)
    pictures = ArrayFrames(blur)
    recorded = array_spikes(pictures, [sensed(part, 8) for part in spikes])
    limits = replace(model.limits, gain=(0.1, 0.1))
    assert compare_with_limits(limits, InputClip(pictures, recorded, OPTIONS)).is_outside
    simulated = InputClip(pictures, replace(recorded, origin=SIMULATED), OPTIONS)
    assert not compare_with_limits(limits, simulated).is_outside


def test_the_shortest_exposure_of_a_recording_counts(model, sequence):
    blur, spikes = arrays(sequence)
    pictures = ArrayFrames(blur[:2])
    exposures = [Exposure(0, 56, 28), Exposure(0, 30, 15)]
    clip = InputClip(pictures, array_spikes(pictures, spikes[:2], exposures), OPTIONS)
    gain, rate = clip.gain(), clip.rate()
    limits = RecordingLimits((gain, gain), (rate, rate), (2.0, 2.0), (56, 56))
    (message,) = compare_with_limits(limits, clip).messages
    assert message == "steps of an exposure 30, trained on 56 (0.54 times the smallest)"


def test_pooled_counts_are_means_over_nine_pixels(model, sequence):
    blur, spikes = arrays(sequence)
    pictures = ArrayFrames(blur)
    clip = InputClip(
        pictures, array_spikes(pictures, [sensed(part, 4) for part in spikes]), OPTIONS
    )
    limits = replace(model.limits, gain=(clip.gain() / 4,) * 2)
    whole = clip.read(slice(0, 2))
    pooled = compare_with_limits(limits, clip).adapt(clip).read(slice(0, 2))
    factor = pooled.spikes.bin_steps.numpy() / whole.spikes.bin_steps.numpy()
    assert (factor == factor.flat[0]).all()
    expected = whole.spikes.counts.numpy()[1, 2, 4:7, 9:12].mean() * factor.flat[0]
    assert pooled.spikes.counts.numpy()[1, 2, 5, 10] == pytest.approx(expected, abs=0.51)


@pytest.fixture(scope="module")
def dark():
    """A dark recording with steps beside the exposures, as a clip of arrays; its sharp frames."""
    parts, exposures, blur, sharp = [], [], [], []
    for frame in frames("train", 56, 30, size=(192, 256)):
        parts.append(sensed(frame.spikes, 3))
        exposures.append(Exposure(CONTEXT, CONTEXT + 56, CONTEXT + 30.5))
        blur.append(frame.blur)
        sharp.append(frame.sharp)
    return np.stack(blur), parts, exposures, np.stack(sharp)


def with_noise(
    blur: np.ndarray, spikes: np.ndarray, exposure: Exposure, sharp: np.ndarray, gain: float
) -> np.ndarray:
    """The blurry frame with the noise of the spikes about the sharp instant."""
    middle = int(exposure.sharp)
    rate = gain * spikes[middle - 5 : middle + 5].mean(axis=0)
    noise = 255 * rate - shrink(luma(sharp), *rate.shape)
    return np.clip(blur + np.kron(noise, np.ones((2, 2)))[..., None], 0, 255).astype(np.uint8)


def test_unseen_spikes_prefer_the_sharp_frame_and_not_the_noise_of_seen_ones(dark):
    blur, spikes, exposures, sharp = dark
    pictures = ArrayFrames(blur)
    clip = InputClip(pictures, array_spikes(pictures, spikes, exposures), OPTIONS)
    noisy = with_noise(blur[0], spikes[0], exposures[0], sharp[0], clip.gain())
    of_blur, of_sharp, of_noise = unseen_agreement(clip, 0, [blur[0], sharp[0], noisy])
    assert of_sharp > of_blur > of_noise
    metrics = no_reference_metrics(clip.spikes.frames[0], blur[0], noisy)
    assert metrics["agreement"] > metrics["agreement_blur"]  # by spikes that the model has seen


def test_steps_of_the_input_are_not_unseen(dark):
    blur, spikes, exposures, _ = dark
    pictures = ArrayFrames(blur)
    wide = StoreOptions(bins=4, context=CONTEXT)
    clip = InputClip(pictures, array_spikes(pictures, spikes, exposures), wide)
    assert unseen_agreement(clip, 0, [blur[0]]) is None
    # Of one recording whose exposures follow each other only the outer sides are unseen.
    stream = np.concatenate([spikes[0], spikes[1]])
    one = [Exposure(0, 56, 28), Exposure(56, 112, 84)]
    clip = InputClip(pictures, array_spikes(pictures, stream, one), OPTIONS)
    assert unseen_agreement(clip, 0, [blur[0]]) is None
    assert unseen_agreement(clip, 1, [blur[0]]) is not None


def noise_model(model: TrainedModel, limits: RecordingLimits) -> TrainedModel:
    """A model that gives noise."""

    def compute(batch):
        shape = np.moveaxis(batch.blur.numpy(), -1, -3).shape
        return np.random.default_rng(0).random(shape, np.float32)

    return replace(model, tile_model=compute, limits=limits)


def test_frames_of_noise_stay_blurry(model, dark):
    blur, spikes, exposures, _ = dark
    pictures = ArrayFrames(blur)
    gain = InputClip(pictures, array_spikes(pictures, spikes, exposures), OPTIONS).gain()
    limits = RecordingLimits((gain / 2, gain / 2), (0.0001, 1.0), (2.0, 2.0), (56, 56))
    trained = noise_model(model, limits)
    with pytest.warns(UserWarning, match="warning: ") as notices:
        restored = trained.restore(blur, spikes, exposures=exposures)
    np.testing.assert_array_equal(restored, blur)
    first, second = (str(warning.message) for warning in notices)
    assert re.search(
        r"outside the recordings .*\n  - gain \S+, trained on .*2 times the lar", first
    )
    title, *names = second.splitlines()[:3]
    assert "frames that were restored worse than the blurry ones (2)" in title
    assert names == ["  - 000001", "  - 000002"]
    inside = noise_model(model, replace(limits, gain=(gain, gain)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (inside.restore(blur, spikes, exposures=exposures) != blur).any()


def test_a_far_recording_needs_anyway_in_python(model, dark):
    blur, spikes, exposures, _ = dark
    limits = RecordingLimits((0.1, 0.1), (0.3, 0.3), (2.0, 2.0), (56, 56))
    trained = replace(model, limits=limits)
    with pytest.raises(
        DataError, match=r"far outside .*at most 5 times are restored(.|\n)*\(anyway\)"
    ):
        trained.restore(blur, spikes, exposures=exposures)
    with pytest.warns(UserWarning, match="averaged over 3 x 3 pixels"):
        assert trained.restore(blur, spikes, exposures=exposures, anyway=True).shape == blur.shape


def changed_limits(train, target, limits: RecordingLimits | None):
    """A copy of a run that was trained on other recordings."""
    shutil.copytree(train, target)
    contents = read_json(target / "statistics.json")
    contents.pop("limits")
    if limits is not None:
        contents["limits"] = limits.contents()
    write_json(target / "statistics.json", contents)
    return target


def test_the_command_refuses_without_anyway_and_records_the_ranges(
    small_run, sequence, tmp_path, capsys
):
    limits = RecordingLimits((0.1, 0.1), (0.5, 0.6), (2.0, 2.0), (56, 56))
    run = changed_limits(small_run.train, tmp_path / "run", limits)
    words = ["restore", run, sequence / "blur", "--spikes", sequence / "spike"]
    words = [*map(str, words), "-o", str(tmp_path / "out"), "--device", "cpu"]
    with pytest.raises(DataError, match=r"far outside(.|\n)*trained on 0\.1 (.|\n)*\(anyway\)"):
        run_command(words)
    assert not (tmp_path / "out").exists()
    assert run_command([*words, "--anyway"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"warning: {sequence / 'blur'}: outside the recordings")
    record = json.loads((tmp_path / "out/restore.json").read_text())
    assert record["limits"]["trained"] == limits.contents()
    assert len(record["limits"]["outside"]) == 2
    assert record["limits"]["pooled"] == 3
    assert set(record["verdicts"]) == {"kept blurry", "reblur", "unseen"}
    assert "frames that came out worse than the blurry ones" in shown


def test_a_result_without_limits_gives_no_warning(small_run, sequence, tmp_path):
    run = changed_limits(small_run.train, tmp_path / "run", None)
    other = load(run, device="cpu")
    assert other.limits is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.restore(*arrays(sequence))


def test_a_pack_keeps_the_limits(small_run, model, tmp_path):
    assert model.limits is not None
    pack_run(small_run.train, tmp_path / "pack", "other")
    assert load(tmp_path / "pack", device="cpu").limits == model.limits


def with_16_bits(frame: np.ndarray) -> np.ndarray:
    """A frame whose values are not those of 8 bits."""
    return np.minimum(257 * frame.astype(int) + 3, 65535).astype(np.uint16)


@pytest.mark.parametrize("stored", [np.asarray, with_16_bits], ids=["8 bits", "16 bits"])
def test_the_folder_holds_blurry_frames_in_place_of_noise(
    model, dark, tmp_path, monkeypatch, stored
):
    eight, spikes, exposures, _ = dark
    blur = [stored(frame) for frame in eight]
    for number, frame in enumerate(blur):
        write_png(tmp_path / f"blur/{number}.png", frame)
        (tmp_path / "spike").mkdir(exist_ok=True)
        np.savez(tmp_path / f"spike/{number}.npz", spk=spikes[number])
    lines = [f"{n},{e.start},{e.stop},{e.sharp}" for n, e in enumerate(exposures)]
    table = "\n".join(["frame,start,stop,sharp", *lines, ""])
    (tmp_path / "exposures.csv").write_text(table)
    request = RestoreRequest(tmp_path / "blur", tmp_path / "out", tmp_path / "spike")
    gain = open_request(model.run, request).source.gain()
    limits = RecordingLimits((gain / 2, gain / 2), (0.0001, 1.0), (2.0, 2.0), (56, 56))
    trained = noise_model(model, limits)
    record = restore(trained, request)
    for number, frame in enumerate(blur):
        kept = read_picture(tmp_path / f"out/restored/{number}.png").rgb
        np.testing.assert_array_equal(kept, frame)
    assert record["verdicts"] == {"kept blurry": ["0", "1"], "reblur": [], "unseen": []}
    (message,) = worse_frames_warnings(record["verdicts"])
    assert "(2)" in message
    # Spikes of something else judge nothing.
    with monkeypatch.context() as patch:
        patch.setattr(checked_clip, "find_spike_mismatches", lambda clip: {0: "0: does not fit"})
        doubtful = replace(request, output=tmp_path / "doubtful")
        record = restore(trained, doubtful)
    assert (read_picture(tmp_path / "doubtful/restored/0.png").rgb != blur[0]).any()
    assert record["verdicts"] == {"kept blurry": [], "reblur": [], "unseen": []}
    # Within its limits a model's frames are written, and judged.
    request = replace(request, output=tmp_path / "inside")
    inside = noise_model(model, replace(limits, gain=(gain, gain)))
    record = restore(inside, request)
    assert record["verdicts"]["unseen"] == record["verdicts"]["reblur"] == ["0", "1"]
    (message,) = worse_frames_warnings(record["verdicts"])
    assert "0: blurred again and by spikes that the model has not seen" in message

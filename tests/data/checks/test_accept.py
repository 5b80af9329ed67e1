"""Acceptance, which stops a data set with faults or leaves sequences out."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.data.checks.accept import accept
from vrtspike.data.checks.frame_summaries import THUMBNAIL_SIDE
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.manifests import INGESTED
from vrtspike.io.files import write_json
from vrtspike.system.errors import DataError

A, B, C = "train/a", "train/b", "test/c"


def manifest(name, faults=(), pictures="123", count=9, has_spikes=True):
    """The ingest manifest of a sequence with frames of 96 x 128, exposed for 88 steps each.

    The picture S is the same in all sequences; an empty text is a picture of one colour.
    """
    spikes = {"start": 0, "steps": 88, "sharp": 40, "total": 88, "count": count}
    frames = [
        {
            "name": str(number),
            "picture": picture if picture in "S" else f"{name}{picture}",
            "thumbnail": "00" * 256,
        }
        for number, picture in enumerate(pictures, start=1)
    ]
    split, sequence = name.rsplit("/", 1)
    return {
        "schema": INGESTED.schema,
        "split": split,
        "sequence": sequence,
        "faults": list(faults),
        "rgb_size": [96, 128],
        "frames": [{**frame, "spikes": spikes if has_spikes else None} for frame in frames],
        "spikes": has_spikes,
    }


SOUND = [manifest(name) for name in (A, B, C)]


@pytest.fixture
def accept_all(tmp_path):
    def accept_all(manifests, surveyed=None, **options):
        paths = [tmp_path / f"{number}.json" for number in range(len(manifests))]
        for path, contents in zip(paths, manifests, strict=True):
            write_json(path, contents)
        return accept(paths, AcceptOptions.model_validate(options), surveyed)

    return accept_all


def test_sound_sequences_pass(accept_all):
    expected = {"schema": 2, "sequences": [C, A, B], "excluded": {}, "overlaps": {}}
    # The limits are just met: 81 bins fill 88 steps.
    limits = {"clip_length": 3, "crop_sizes": {"train": 96, "other": 1000}}
    assert accept_all(SOUND, stores={"bins": 81}, **limits) == expected
    assert accept_all([manifest(A, has_spikes=False)], stores={"bins": 32})["sequences"] == [A]
    assert (
        accept_all([manifest(A, pictures=["", "", ""]), manifest(C, pictures=[""])])["overlaps"]
        == {}
    )
    with pytest.raises(DataError, match="nothing to accept"):
        accept_all([])


@pytest.mark.parametrize(
    ("manifests", "options", "message"),
    [
        (SOUND, {"clip_length": 4}, f"{A} and 2 more of 3: 3 frames, but .* DATA.CLIP_LEN = 4"),
        (
            [*SOUND[:2], manifest(C, ["torn"], pictures="1")],
            {"clip_length": 3},
            rf"\(1\):\n  - {C}: torn\n",  # it is not called short because of its faulty frames
        ),
        (
            SOUND,
            {"crop_sizes": {"train": 104, "test": 96}},
            f"{A} and 1 more of 3: frames of 96 x 128, but crops .* take 104 x 104",
        ),
        (
            SOUND,
            {"stores": {"bins": 82}},
            f"{A} and 2 more of 3: exposure of frame 1: 82 voxel bins for 88 steps: .* set "
            "DATA.NUM_VOXEL_BINS to at most 81",
        ),
        (
            [*SOUND[:2], manifest(C, count=0)],
            {},
            rf"\(1\):\n  - {C}: its 3 exposures hold not a single spike",
        ),
        (
            [manifest(A, pictures="1SS"), manifest(B), manifest(C, pictures="2S")],
            {},
            rf"\(1\):\n  - {C}: 1 of its 2 sharp frames are frames of {A}, .* remove it, or set "
            "DATA.TEST_ON_TRAINING_FRAMES to true",
        ),
    ],
)
def test_faults_stop_a_data_set(accept_all, manifests, options, message):
    with pytest.raises(DataError, match=message):
        accept_all(manifests, **options)


def test_all_faults_are_listed_or_their_sequences_left_out(accept_all):
    faulty = [
        manifest(A, ["torn"]),
        manifest(C, ["16 bits", "cut"]),
        manifest(B, pictures="SS"),
        manifest("test/d", pictures="1S"),
        manifest("train/copy", pictures="SS"),
    ]
    surveyed = {"train/x": ["no spikes"]}
    copied = f"train/copy: its sharp frames are those of {B}, frame by frame"
    messages = ["(6):", "train/x: no spikes", f"{A}: torn", f"{C}: 16 bits", f"{C}: cut", copied]
    with pytest.raises(DataError) as caught:
        accept_all(faulty, surveyed=surveyed)
    assert all(text in str(caught.value) for text in messages)
    accepted = accept_all(
        faulty, on_error="exclude", surveyed=surveyed, test_on_training_frames=True
    )
    # Of two equal sequences the first one stays.
    assert (accepted["sequences"], accepted["overlaps"]) == (["test/d", B], {"test/d": B})
    assert sorted(accepted["excluded"]) == [C, A, "train/copy", "train/x"]


def test_a_split_without_any_sequence_left_stops_acceptance(accept_all):
    surveyed = {"test/x": ["no sharp frames"], "train/y": ["no spikes"]}
    with pytest.raises(DataError, match="all sequences of split test were left out") as caught:
        accept_all([SOUND[0], manifest(C, ["16 bits"])], on_error="exclude", surveyed=surveyed)
    messages = ("(2)", "test/x: no sharp frames", "16 bits", "DATA.TEST_SPLIT")
    assert all(text in str(caught.value) for text in messages)
    assert "no spikes" not in str(caught.value)  # of train, which has another sequence
    with pytest.raises(DataError, match="all sequences of split test were left out"):
        accept_all(SOUND[:1], on_error="exclude", surveyed={"test": ["no sequence folders"]})


def test_training_frames_in_the_test_split_may_be_allowed(accept_all):
    both = [manifest(A, pictures="1SS"), manifest(C, pictures="2S")]
    assert accept_all(both, splits=("test", "none"))["overlaps"] == {}
    allowed = accept_all(both, test_on_training_frames=True)
    assert (allowed["sequences"], allowed["overlaps"]) == ([C, A], {C: A})
    same = accept_all(both[:1], splits=("train", "train"), test_on_training_frames=True)
    assert same["overlaps"] == {A: A}
    nested = [manifest(f"sub/{name}", pictures="S") for name in (A, C)]
    accepted = accept_all(nested, splits=("sub/train", "sub/test"), test_on_training_frames=True)
    assert accepted["overlaps"] == {f"sub/{C}": f"sub/{A}"}


def test_exact_and_altered_training_frames_are_counted_together(accept_all):
    """Of each test frame once, by the sequence that it comes from."""
    thumbnails = np.random.default_rng(0).integers(0, 256, (6, THUMBNAIL_SIDE**2), dtype=np.uint8)
    sequences = [
        manifest(A, pictures="S1"),
        manifest(B, pictures="123"),
        manifest(C, pictures="S12345"),
    ]
    for sequence, frames in zip(sequences, ([0, 1], [2, 3, 4], [0, 5, 2, 3, 4, 2]), strict=True):
        for frame, thumbnail in zip(sequence["frames"], thumbnails[frames], strict=True):
            frame["thumbnail"] = thumbnail.tobytes().hex()
    with pytest.raises(DataError, match=f"{C}: 5 of its 6 sharp frames are frames of {B}, {A}, so"):
        accept_all(sequences)
    assert accept_all(sequences, test_on_training_frames=True)["overlaps"] == {C: B}

"""Sound in the copy of a video."""

from __future__ import annotations

import pytest

from tests.data.video.samples import (
    LANGUAGES,
    copy,
    seconds,
    sound_begins,
    sound_languages,
    sound_packets,
    write_sample,
)
from vrtspike.data.video import uncopied_streams


@pytest.mark.parametrize(
    ("name", "codecs"), [("a.mkv", ["aac", "flac"]), ("a.mp4", ["libopus"]), ("a.ts", ["mp2"])]
)
def test_sound_is_copied_packet_by_packet(tmp_path, name, codecs):
    write_sample(tmp_path / name, sound=codecs)
    info, copied = copy(tmp_path / name, tmp_path / "copy.mp4")
    assert uncopied_streams(tmp_path / name) == []
    packets = sound_packets(tmp_path / name)
    assert len(packets) == len(codecs)
    assert sound_packets(tmp_path / "copy.mp4") == packets
    assert sound_languages(tmp_path / "copy.mp4") == list(LANGUAGES[: len(codecs)])
    assert seconds(copied) == seconds(info)
    begun = [float(begin - info.start) for begin in sound_begins(tmp_path / name)]
    later = [float(begin) for begin in sound_begins(tmp_path / "copy.mp4")]
    assert later == pytest.approx(begun, abs=0.001)


def test_sound_that_mp4_does_not_take_is_named(tmp_path):
    write_sample(tmp_path / "a.mkv", sound=["wavpack", "aac", "pcm_s16le"])
    copy(tmp_path / "a.mkv", tmp_path / "copy.mp4")
    assert uncopied_streams(tmp_path / "a.mkv") == [
        "stream 1: audio, wavpack",
        "stream 3: audio, pcm_s16le",
    ]
    assert sound_packets(tmp_path / "copy.mp4") == sound_packets(tmp_path / "a.mkv")[1:2]

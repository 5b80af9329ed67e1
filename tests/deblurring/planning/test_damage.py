"""Versions of input folders; damaged shards are tested in test_shards.py."""

from __future__ import annotations

from vrtspike.deblurring.planning.damage import MISSING, inputs_version


def test_versions_of_files_change_with_them(tmp_path):
    frame = tmp_path / "train/a/000001.png"
    for path in (frame, tmp_path / "test/b/000001.png"):
        path.parent.mkdir(parents=True)
        path.write_text("picture")
    train = str(tmp_path / "train")
    test = str(tmp_path / "test")

    def versions() -> list[str]:
        return [inputs_version("files", train), inputs_version("files", test, None, train)]

    before = versions()
    (frame.parent / ".hidden").touch()
    assert versions() == before
    frame.write_text("pictura")
    assert set(versions()).isdisjoint(before)
    assert inputs_version("frames", str(tmp_path / "none")) == MISSING

"""Translations of the reference of keys: a text is Chinese as long as its English stands."""

from __future__ import annotations

import tomllib

from vrtspike.config import translations as module
from vrtspike.config.reference import reference_page
from vrtspike.config.translations import chinese, missing_page

BINS = "Bins of the voxel grid"


def test_a_text_without_chinese_is_english_and_listed(monkeypatch, repository):
    translations = {BINS: "时间段数", "Text of a key that is gone": "没有了"}
    monkeypatch.setattr(module, "translations", lambda: translations)
    assert "| `DATA.NUM_VOXEL_BINS` | `32` | 时间段数 |" in reference_page(chinese)
    page = missing_page(repository)
    assert "Not needed any more:\n\n- Text of a key that is gone\n" in page
    # A line of the list is a translation once it is in the file.
    lines = page.partition("```toml\n")[2].partition("\n```\n")[0]
    missing = dict(tomllib.loads(f"texts = [{lines}]")["texts"])
    assert len(missing) > 100
    assert "Frames of a clip" in missing
    assert BINS not in missing
    translations |= missing
    assert "```toml" not in missing_page(repository)

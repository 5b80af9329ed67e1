"""Translations of the reference of keys: which belong to today's English, which do not."""

from __future__ import annotations

import pytest

from vrtspike.config import chinese as module
from vrtspike.config.chinese import chinese, chinese_page, digest, needless, untranslated
from vrtspike.errors import ConfigError

BINS = "Bins of the voxel grid"


@pytest.fixture
def translations(tmp_path, monkeypatch):
    """Writes the file of translations that is read."""
    path = tmp_path / "chinese.toml"
    monkeypatch.setattr(module, "TRANSLATIONS", path)

    def write(text: str) -> None:
        path.write_text(text, encoding="utf-8")
        module._translations.cache_clear()

    yield write
    module._translations.cache_clear()


def test_a_translation_counts_as_long_as_its_english_stands(translations):
    translations(f'"DATA.K" = ["{digest(BINS)}", "时间段数"]\n')
    assert chinese("DATA.K", BINS) == "时间段数"
    assert chinese("DATA.K", "Bins of another grid") == "Bins of another grid"
    assert "| `DATA.K` | `32` | 时间段数 | yes |" in chinese_page()


def test_a_stale_translation_is_named_with_the_line_that_belongs_there(translations):
    translations('"DATA.K" = ["00000000", "时间段数"]\n')
    lines = [line for line in untranslated() if line.startswith('"DATA.K"')]
    assert lines == [f'"DATA.K" = ["{digest(BINS)}", "{BINS}"]']
    assert f"| `DATA.K` | `32` | {BINS} | yes |" in chinese_page()


def test_a_line_of_the_list_is_a_translation_once_it_is_put_there(translations):
    translations("")
    lines = untranslated()
    assert len(lines) > 100
    translations("\n".join(lines))
    assert untranslated() == []


def test_a_translation_that_nothing_asks_for_is_named(translations):
    translations('"DATA.GONE" = ["00000000", "没有了"]\n')
    assert needless() == ["DATA.GONE"]


@pytest.mark.parametrize("text", ["DATA.K = 时间", '"DATA.K" = "时间"', '"DATA.K" = ["a", 1]'])
def test_a_broken_file_of_translations_is_named(text, translations):
    translations(text)
    with pytest.raises(ConfigError, match=r"chinese\.toml"):
        chinese("DATA.K", BINS)

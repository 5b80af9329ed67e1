"""Translations of the reference of keys: which belong to today's English, which do not."""

from __future__ import annotations

import pytest

from vrtspike.config import reference as module
from vrtspike.config.reference import (
    chinese,
    digest,
    missing_page,
    reference_page,
    untranslated,
    unused_translations,
)
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
    translations(f'"DATA.NUM_VOXEL_BINS" = ["{digest(BINS)}", "时间段数"]\n')
    assert chinese("DATA.NUM_VOXEL_BINS", BINS) == "时间段数"
    assert chinese("DATA.NUM_VOXEL_BINS", "Bins of another grid") == "Bins of another grid"
    assert "| `DATA.NUM_VOXEL_BINS` | `32` | 时间段数 |" in reference_page(chinese)


def test_a_stale_translation_is_named_with_the_line_that_belongs_there(translations):
    translations('"DATA.NUM_VOXEL_BINS" = ["00000000", "时间段数"]\n')
    lines = [line for line in untranslated() if line.startswith('"DATA.NUM_VOXEL_BINS"')]
    assert lines == [f'"DATA.NUM_VOXEL_BINS" = ["{digest(BINS)}", "{BINS}"]']
    assert f"| `DATA.NUM_VOXEL_BINS` | `32` | {BINS} |" in reference_page(chinese)


def test_a_line_of_the_list_is_a_translation_once_it_is_put_there(translations):
    translations("")
    lines = untranslated()
    assert len(lines) > 100
    translations("\n".join(lines))
    assert untranslated() == []


def test_a_translation_that_nothing_asks_for_is_named(translations, repository):
    translations('"DATA.GONE" = ["00000000", "没有了"]\n')
    assert unused_translations() == ["DATA.GONE"]
    assert "Not needed any more: DATA.GONE\n" in missing_page(repository)


@pytest.mark.parametrize(
    "text",
    [
        "DATA.NUM_VOXEL_BINS = 时间",
        '"DATA.NUM_VOXEL_BINS" = "时间"',
        '"DATA.NUM_VOXEL_BINS" = ["a", 1]',
    ],
)
def test_a_broken_file_of_translations_is_named(text, translations):
    translations(text)
    with pytest.raises(ConfigError, match=r"chinese\.toml"):
        chinese("DATA.NUM_VOXEL_BINS", BINS)

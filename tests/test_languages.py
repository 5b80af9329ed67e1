"""English and Chinese pages say the same: headings, commands, links, names, figures."""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.shipped import video_presets
from vrtspike.config.chinese import needless, untranslated

PAIRS = {
    "README.md": "README.zh-CN.md",
    "config/README.md": "docs/zh/configuration.md",
    "docs/data-formats.md": "docs/zh/data-formats.md",
    "docs/glossary.md": "docs/zh/glossary.md",
    "docs/images/workflow.svg": "docs/images/workflow.zh.svg",
    "docs/troubleshooting.md": "docs/zh/troubleshooting.md",
    "docs/tutorial.md": "docs/zh/tutorial.md",
}
PAGES = [english for english in PAIRS if english.endswith(".md")]
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)]+)\)")
_CODE = re.compile(r"``(.+?)``|`([^`]+)`")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True)
class Section:
    """What does not depend on the language in a section of a page.

    Attributes:
        level: number of # of its heading.
        commands: lines of its code blocks without comments, after the block's language.
        links: where its links lead, Chinese pages by their English ones.
        names: what stands between backticks.
        figures: the numbers in its text.
        tables: the columns of each line of its tables.
    """

    level: int
    commands: list[str]
    links: list[str]
    names: set[str]
    figures: set[str]
    tables: list[int]


def sections(repository: Path, page: str) -> list[Section]:
    text = (repository / page).read_text(encoding="utf-8")
    blocks: list[str] = []

    def keep(match: re.Match[str]) -> str:
        blocks.append(match[0])
        return f"\x00{len(blocks) - 1}\x00"

    parts = re.split(r"^(#+) .*\n", _BLOCK.sub(keep, text), flags=re.MULTILINE)
    assert parts[0].strip() == "", "a page begins with its title"
    return [
        _section(page, len(mark), body, blocks)
        for mark, body in zip(parts[1::2], parts[2::2], strict=True)
    ]


def _section(page: str, level: int, body: str, blocks: list[str]) -> Section:
    own = [blocks[int(number)] for number in re.findall(r"\x00(\d+)\x00", body)]
    words = re.sub(r"\x00\d+\x00|<!--.*?-->", "", body, flags=re.DOTALL)
    plain = _LINK.sub("]", _CODE.sub(" ", words))
    return Section(
        level,
        [line for block in own for line in _commands(block)],
        sorted(_target(page, link) for link in _LINK.findall(words) if not _switch(page, link)),
        {(two or one).strip() for two, one in _CODE.findall(words)},
        {figure.strip(".,") for figure in re.findall(r"\d[\d.,]*", plain)},
        [len(re.findall(r"(?<!\\)\|", line)) for line in words.splitlines() if line[:1] == "|"],
    )


def _commands(block: str) -> list[str]:
    match = _BLOCK.fullmatch(block)
    assert match is not None
    lines = [re.split(r"(?:^| +)# ", line)[0].rstrip() for line in match[2].splitlines()]
    return [match[1], *filter(None, lines)]


def _switch(page: str, link: str) -> bool:
    """Whether a link leads to the same page in the other language."""
    partner = PAIRS.get(page) or next(e for e, c in PAIRS.items() if c == page)
    return _resolved(page, link) == partner


def _target(page: str, link: str) -> str:
    path = _resolved(page, link)
    return next((english for english, chinese in PAIRS.items() if chinese == path), path)


def _resolved(page: str, link: str) -> str:
    if "://" in link or link.startswith("#"):
        return link
    return os.path.normpath(os.path.join(os.path.dirname(page), link))  # noqa: PTH118, PTH120


def both(repository: Path, page: str) -> list[tuple[Section, Section]]:
    pair = sections(repository, page), sections(repository, PAIRS[page])
    assert [s.level for s in pair[0]] == [s.level for s in pair[1]], "other headings"
    return list(zip(*pair, strict=True))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("what", ["commands", "links", "names", "figures", "tables"])
def test_both_languages_say_the_same(page, what, repository):
    for number, (english, chinese) in enumerate(both(repository, page)):
        found, wanted = getattr(chinese, what), getattr(english, what)
        assert found == wanted, f"{what} of section {number} of {PAIRS[page]}"


@pytest.mark.parametrize("page", PAIRS.values())
def test_the_chinese_page_is_chinese(page, repository):
    text = (repository / page).read_text(encoding="utf-8")
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        names = ("vrtspike", "TensorBoard", "config/config.yaml")
        assert _CHINESE.search(heading) or heading in names, heading


@pytest.mark.parametrize("page", PAGES)
def test_each_page_leads_to_the_other(page, repository):
    for here, there in ((page, PAIRS[page]), (PAIRS[page], page)):
        links = _LINK.findall((repository / here).read_text(encoding="utf-8"))
        assert there in [_resolved(here, link) for link in links]


def test_every_link_between_pages_leads_somewhere(repository):
    pages = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    pages += [repository / "config/README.md", repository / "tests/README.md"]
    lost = []
    for path in pages:
        page = str(path.relative_to(repository))
        text = _CODE.sub("", _BLOCK.sub("", path.read_text(encoding="utf-8")))
        for link in _LINK.findall(text):
            target, _, anchor = _resolved(page, link).partition("#")
            if "://" not in link and not _is_there(repository, target or page, anchor):
                lost.append(f"{page}: {link}")
    assert lost == []


def _is_there(repository: Path, page: str, anchor: str) -> bool:
    path = repository / page
    if not anchor:
        return path.exists()
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in [re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles]


def test_every_text_of_the_reference_is_translated():
    assert untranslated() == [], "put the Chinese into src/vrtspike/config/chinese.toml"
    assert needless() == []


def test_memory_in_the_readme_is_what_was_counted(repository):
    """A clip more keeps as much more for the backward pass; all else there is once."""
    page = (repository / "docs/presets.md").read_text(encoding="utf-8")
    first, second = page.index("| preset | parameters |"), page.index("| preset | clip | kernels |")
    clips = dict(re.findall(r"^\| `(\w+)` (?:\|[^|]*){2}\| (\d+) x", page[first:second], re.M))
    counted = {
        name: float(peak) + float(kept) * (int(clips[name]) - 1)
        for name, kept, peak in re.findall(
            r"^\| `(\w+)` (?:\|[^|]*){4}\| ([\d.]+) GiB \| ([\d.]+) GiB \|", page[second:], re.M
        )
        if name in clips
    }
    readme = (repository / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) GiB \|", readme, re.MULTILINE))
    exact = {name: float(peak) for name, peak in told.items()}
    assert exact == pytest.approx(counted, abs=0.15)  # sums of what was rounded to tenths
    assert told.keys() == video_presets(repository).keys()

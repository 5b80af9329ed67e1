"""English and Chinese pages belong together, and links lead somewhere."""

from __future__ import annotations

import os.path
import re
import shutil
from pathlib import Path

import pytest

from vrtspike.config.translations import PAGES, missing_page

PAIRS = {**PAGES, "config/README.md": "docs/zh/configuration.md"}
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)]+)\)")
_CODE = re.compile(r"``(.+?)``|`([^`]+)`")


def _resolved(page: str, link: str) -> str:
    if "://" in link or link.startswith("#"):
        return link
    return os.path.normpath(os.path.join(os.path.dirname(page), link))  # noqa: PTH118, PTH120


@pytest.mark.parametrize("page", PAIRS)
def test_each_page_leads_to_the_other(page, repository):
    for here, there in ((page, PAIRS[page]), (PAIRS[page], page)):
        links = _LINK.findall((repository / here).read_text(encoding="utf-8"))
        assert there in [_resolved(here, link) for link in links]


@pytest.mark.parametrize("page", PAIRS.values())
def test_links_to_english_pages_say_so(page, repository):
    """``（英文）`` follows them, or ``，英文）`` at the end of a parenthesis."""
    text = (repository / page).read_text(encoding="utf-8")
    wrong = []
    for title, link, marked in re.findall(r"\[([^\]]*)\]\(([^)]+)\)([（，]英文）)?", text):
        target = _resolved(page, link).partition("#")[0]
        english = target.endswith((".md", ".ipynb")) and target not in PAIRS.values()
        if title != "English" and english != bool(marked):
            wrong.append(link)
    assert wrong == []


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


def test_what_a_chinese_page_lacks_is_listed_and_fails_nothing(repository, tmp_path):
    for page in (*PAGES, *PAGES.values()):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / page, tmp_path / page)
    before = missing_page(tmp_path).splitlines()
    page = tmp_path / "docs/glossary.md"
    title = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[-1]
    with page.open("a", encoding="utf-8") as stream:
        stream.write("\nA number, 98765, and a `new_name`.\n")
    added = [line for line in missing_page(tmp_path).splitlines() if line not in before]
    assert [line for line in added if title in line and "98765, `new_name`" in line]

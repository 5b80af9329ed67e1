"""The site: its navigation, and the packages that build it. ``make docs`` builds it (.ci/run)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from vrtspike.config.translations import PAGES

SITE = Path("docs/site")
GENERATED = {"docs/reference.md"}


@pytest.fixture(scope="module")
def configuration(repository):
    return YAML().load((repository / SITE / "mkdocs.yml").read_text(encoding="utf-8"))


def named_pages(navigation) -> Iterator[str]:
    """Pages of a navigation, in order."""
    for entry in navigation:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else named_pages(value)


def test_the_navigation_has_every_page_once(configuration, repository):
    pages = list(named_pages(configuration["nav"]))
    assert len(set(pages)) == len(pages)
    written = [
        *repository.glob("*.md"),
        *repository.glob("docs/*.md"),
        *repository.glob("docs/zh/*"),
    ]
    names = {str(path.relative_to(repository)) for path in written}
    folders = ("config", "tests", "benchmarks", "workflow/profiles")
    others = {f"{folder}/README.md" for folder in folders}
    assert set(pages) == names | others | GENERATED


def parts_of(navigation) -> dict[str, set[str]]:
    """Pages of each part of a navigation."""
    return {name: set(named_pages(part)) for entry in navigation for name, part in entry.items()}


def linked_pages(page: Path) -> set[Path]:
    """Pages that a page links to."""
    links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in links}


def test_the_indexes_list_every_page(configuration, repository):
    parts = parts_of(configuration["nav"])
    chinese = parts.pop("中文") - {"docs/zh/missing.md"}
    english = set().union(*parts.values()) - GENERATED
    untranslated = english - {*PAGES, "config/README.md"}
    indexes = {"docs/README.md": english, "docs/zh/README.md": chinese | untranslated}
    for index, pages in indexes.items():
        expected = {(repository / page).resolve() for page in pages - {index}}
        assert expected - linked_pages(repository / index) == set()


def test_chinese_pages_have_a_part_of_their_own(configuration):
    parts = parts_of(configuration["nav"])
    chinese = parts.pop("中文")
    assert {page for page in chinese if "zh" not in page} == set()
    assert not any("zh" in page for part in parts.values() for page in part)


def test_pages_show_their_diagrams_without_a_network(configuration, repository):
    """The theme loads Mermaid's script, which would draw such a block, from another host."""
    pages = set(named_pages(configuration["nav"])) - GENERATED
    texts = {page: (repository / page).read_text(encoding="utf-8") for page in pages}
    assert [page for page, text in texts.items() if "```mermaid" in text] == []


def test_dead_links_fail_the_build(configuration, repository):
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    (call,) = re.findall(r"^.*mkdocs build.*$", makefile, re.MULTILINE)
    assert "quiet" not in call  # MkDocs counts no warnings then
    assert configuration["strict"] is True
    assert set(configuration["validation"]["links"].values()) == {"warn"}


def test_the_packages_of_the_site_are_locked_by_name_and_version(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    text = (repository / SITE / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    locked = {}
    for requirement in map(Requirement, text.splitlines()):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        locked.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    for wanted in map(Requirement, project["dependency-groups"]["docs"]):
        for requirement in locked[canonicalize_name(wanted.name)]:
            version = str(requirement.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), wanted

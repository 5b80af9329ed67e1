"""Hooks of MkDocs: the site's pages are the Markdown files of the repository."""

from __future__ import annotations

import re
from pathlib import Path

from markdown import Extension, Markdown
from markdown.blockprocessors import build_block_parser
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/zh/*.md",
    "config/README.md",
    "tests/README.md",
    "benchmarks/README.md",
)
PROFILES = "workflow/profiles/README.md"
LINKED = ("CITATION.cff", "docs/restore.ipynb", "docs/images/*")
"""Files that pages show or link to."""
REFERENCE = "docs/reference.md"

CHINESE = re.compile(r"^docs/zh/|\.zh-CN\.md$")
"""Chinese pages, by their paths."""

_API = Path("docs/api.md")
_ROW = re.compile(r"^\| `(vrtspike[\w.]*)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>~?([^<]+)</code>")
_ITEM = re.compile(r" *(?:[-*+]|\d+\.) ")
_LIST_INDENT = 2
"""Spaces before the continuation of an item on GitHub; Python-Markdown wants 4 by default."""


class ShortIndent(Extension):
    """Indentation of list items as on GitHub."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Build the parser anew with this number of spaces; other extensions add to it later."""
        md.tab_length = _LIST_INDENT
        md.parser = build_block_parser(md)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read lists as GitHub does."""
    config.markdown_extensions.insert(0, ShortIndent())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, what they link to, and the reference of the stable names."""
    for pattern in (*PAGES, PROFILES, *LINKED):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    files.append(File.generated(config, REFERENCE, content=reference_page()))
    return files


def reference_page() -> str:
    """The reference of the names in docs/api.md, row by row, as Markdown."""
    parts = ["# Reference\n\nThe docstrings of the [stable names](api.md#stable-names).\n"]
    rows = _ROW.findall((ROOT / _API).read_text(encoding="utf-8"))
    for module, names, purpose in rows:
        title = ", ".join(f"`{name}`" for name in re.findall(r"`(\w+)`", names))
        parts.append(f"## {title}\n\n`{module}`: {purpose.strip()}.\n")
        parts += [f"::: {module}.{name}\n" for name in re.findall(r"`(\w+)`", names)]
    return "\n".join(parts)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Separate list items from paragraphs above, as GitHub does without an empty line.

    Items of one list stay together unless the one above has several paragraphs.
    """
    lines: list[str] = []
    is_code = False
    is_list = False
    has_gap = True
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        is_item = not is_code and _ITEM.match(line) is not None
        if is_item:
            if lines and lines[-1].strip() and (has_gap or not is_list):
                lines.append("")
            is_list = True
            has_gap = False
        elif not line.strip():
            has_gap = True
        elif has_gap and not line.startswith(" "):
            is_list = False
        lines.append(line)
    return "\n".join(lines)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the roles of Sphinx in docstrings into plain code."""
    return _ROLE.sub(r"<code>\1</code>", html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give Chinese pages their language; the theme has one for the whole site."""
    if CHINESE.search(page.file.src_uri):
        return output.replace('<html lang="en"', '<html lang="zh-CN"', 1)
    return output


def on_post_build(config: MkDocsConfig, **_: object) -> None:
    """Name the page to open."""
    print(f"site: {Path(config.site_dir) / 'index.html'}")

"""The frame of offline pages."""

from __future__ import annotations

import re

import pytest

from vrtspike.reporting.offline_page import Headline, OfflinePage, script_json


def test_json_in_a_script_cannot_end_it():
    assert script_json(["<!--<script>", "\u2028"]) == '["\\u003c!--\\u003cscript>","\\u2028"]'
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


@pytest.mark.parametrize(("has_files", "sources"), [(False, "data:"), (True, "data: 'self' file:")])
def test_only_a_page_with_files_beside_it_may_read_files(has_files, sources):
    page = OfflinePage(Headline("**1** < 2", []), {"one": "First"}, ["dom.js"], has_files=has_files)
    text = page.render({"runs": []})
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.replace("&#39;", "'").endswith(f"media-src {sources}")
    assert "<h1><strong>1</strong> &lt; 2</h1>" in text
    assert '<h2 id="one-title">First</h2>' in text

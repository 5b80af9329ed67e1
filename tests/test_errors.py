from __future__ import annotations

from vrtspike.errors import list_faults


def test_a_list_that_is_cut_short_counts_all_faults():
    faults = [f"fault {number}" for number in range(15)]
    lines = list_faults("bad", faults, "Fix it.", limit=12).splitlines()
    assert lines[0] == "bad (15):"
    assert lines[12:] == ["  - fault 11", "  ... and 3 more", "Fix it."]
    assert list_faults("bad", faults[:12], "Fix it.", limit=12).splitlines()[0] == "bad (12):"
    assert "more" not in list_faults("bad", faults[:12], "Fix it.", limit=12)

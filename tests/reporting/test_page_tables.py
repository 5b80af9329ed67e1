"""Tables and texts of the report page in a real Chromium."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from tests.reporting.browser import PHONE
from tests.reporting.results import make_evaluation, make_run
from tests.reporting.shown_page import NEEDS_CHROMIUM, RIGHT, rows, texts, written
from vrtspike.io.files import read_json, write_json

pytestmark = NEEDS_CHROMIUM


def test_tables_sort_by_mouse_and_keyboard(page):
    def column(place: int) -> list[str]:
        return [cells[place] for cells in rows(page, "#metrics .tall table")[1:]]

    assert rows(page, "#metrics .tall table")[0] == [
        "preset", "sequence", "restored", "gain", "blurry", "spikes alone, grey", "frames",
    ]  # fmt: skip
    heads = page.locator("#metrics .tall thead th")
    restored = heads.nth(2)
    assert restored.get_attribute("aria-sort") is None
    restored.locator("button").click()
    assert restored.get_attribute("aria-sort") == "ascending"
    assert column(2) == ["21.00", "21.00", "24.00"]
    restored.locator("button").press("Enter")
    assert restored.get_attribute("aria-sort") == "descending"
    assert column(2) == ["24.00", "21.00", "21.00"]
    # Rows without a value come last in both orders.
    for _ in range(2):
        heads.nth(5).locator("button").click()
        assert column(5)[-1] == "–"
    assert restored.get_attribute("aria-sort") is None
    assert "−1.00" in column(3)
    page.select_option("#metrics select", "LPIPS")
    assert set(column(3)) == {"+0.2500"}  # LPIPS went down by as much


def test_all_metrics_stand_in_one_table_that_fits(page):
    means = rows(page, "#metrics table >> nth=0")
    assert means[0] == ["preset", "metric", "restored", "gain", "blurry", "spikes alone"]
    assert ["with_spikes", "PSNR, dB", "22.50", "+4.00", "18.50", "15.00 (grey)"] in means
    assert ["without", "LPIPS", "0.2500", "+0.2500", "0.5000", "–"] in means
    costs = rows(page, "#metrics table >> nth=1")
    assert costs[1] == ["with_spikes", "0.7", "0.50", "1.2", "0.0"]
    assert costs[0][2:] == ["restoring, s a frame", "parameters, M", "weights, MB"]
    widths = page.locator("table").evaluate_all("all => all.map(table => table.scrollWidth)")
    assert max(widths) <= 1240


def test_spikes_alone_are_explained_where_they_win(page, show, tmp_path):
    assert page.locator(".remarks").count() == 0
    make_run(tmp_path, "a")
    table = make_evaluation(tmp_path, "a") / "sequences.csv"
    table.write_text(table.read_text().replace(",15.0,", ",23.0,"))
    text = show(written(tmp_path, "a")).text_content(".remarks")
    # Restored: 21 and 24 dB.
    assert text.startswith("On 1 of 2 sequences (GOPR1) the picture from spikes alone has the")


HOSTILE = "</script><script>alert(1)</script>\"'&{{data}}"


def test_runs_of_other_frames_and_metrics_are_not_mixed_up(show, tmp_path):
    """One ranked by LPIPS beside one ranked by PSNR, names that are no names."""
    made = {
        "psnr": {"sequences": (HOSTILE.replace("/", ""), "b" * 200)},
        "lpips": {"sequences": ("b" * 200,), "data": "reds"},
    }
    for name, contents in made.items():
        make_run(tmp_path, name)
        make_evaluation(tmp_path, name, **contents)
    video = tmp_path / "evaluate/psnr/videos" / "街 #1?%20&.mp4"
    video.parent.mkdir()
    video.write_bytes(bytes(2_100_000))  # too large for the page
    path = tmp_path / "evaluate/lpips/summary.json"
    metrics = {"lpips": {"blurry": 0.25, "restored": 0.250001, "gain": -0.000001}}
    worst = [{"sequence": HOSTILE, "frame": "1", "lpips": 0.25}]
    write_json(path, read_json(path) | {"metrics": metrics, "worst": worst})
    better = {"psnr": "improved above the line", "lpips": "improved below the line"}
    for names in (("psnr", "lpips"), ("lpips", "psnr")):
        page = show(written(tmp_path, *names))
        text = page.text_content("#metrics")
        assert "evaluated on different frames" in text
        assert "lpips: 3 frames of 1 sequence in reds/test, blurry ones of blur" in text
        assert better[names[0]] in text
        link = page.locator(".videos a").get_attribute("href")
        assert unquote(urlsplit(link).path).endswith(video.name)
        options = texts(page, f"{RIGHT} option")
        assert not [option for option in options if option.startswith("Restored by")]
        assert set(texts(page, "#metrics .chart tbody td:nth-child(1)")) == {names[0]}
    # A change that is shown as zero is neither better nor worse.
    (gain,) = (
        row.locator("td").nth(3)
        for row in page.locator("#metrics table").first.locator("tbody tr").all()
        if row.locator("td").all_text_contents()[:2] == ["lpips", "LPIPS"]
    )
    assert gain.text_content() == "0.0000"
    assert gain.locator("> *").first.get_attribute("class") in (None, "")
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    # A long name leaves the values in sight.
    cell = page.locator("#metrics .tall td:nth-child(3)").first.bounding_box()
    assert cell["x"] + cell["width"] < 1280
    page = show(page.url, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_metrics_of_two_protocols_do_not_stand_in_one_table(show, tmp_path):
    for name, protocol, unit in (("a", "own", "sequences"), ("b", "vrt", "frames")):
        make_run(tmp_path, name)
        folder = make_evaluation(tmp_path, name, ("one",), protocol=protocol, mean_over=unit)
        for table in (folder / "frames.csv", folder / "sequences.csv"):
            head, *lines = table.read_text().splitlines()
            kept = [f"{head},protocol", *(f"{line},{protocol}" for line in lines)]
            table.write_text("\n".join(kept) + "\n")
    page = show(written(tmp_path, "a", "b"))
    caption = page.text_content("#metrics table >> nth=0 >> caption")
    assert caption == "Means over the test sequences or frames"
    for metric, cells in {
        "PSNR": [["a", "one", "21.00", "+4.00"], ["b", "one", "–", "–"]],
        "PSNR (vrt)": [["a", "one", "–", "–"], ["b", "one", "21.00", "+4.00"]],
    }.items():
        page.select_option("#metrics select", metric)
        assert [row[:4] for row in rows(page, "#metrics .tall table")[1:]] == cells


def test_worst_frames_are_shown_if_there_are_any(show, tmp_path):
    make_run(tmp_path, "a")
    make_evaluation(tmp_path, "a")
    path = tmp_path / "evaluate/a/summary.json"
    drawn = "PSNR of every test frame, improved above the line"
    for worst, shown in (([], [drawn]), (read_json(path)["worst"], [drawn, "Worst frames"])):
        write_json(path, read_json(path) | {"worst": worst})
        assert texts(show(written(tmp_path, "a")), "#metrics h3") == shown


def test_the_page_names_the_split_of_validation(show, tmp_path):
    for name in ("held_out", "test"):
        make_run(tmp_path, name, DATA={"VALIDATION": name})
        make_evaluation(tmp_path, name)
    of_test = "Validations while training are of centre crops of test frames. The metrics above"
    for names, note in {
        ("test",): of_test,
        ("held_out",): "centre crops of training sequences that are held out. The metrics above",
        ("test", "held_out"): "test of test frames; held_out of training sequences that are held",
    }.items():
        assert note in show(written(tmp_path, *names)).text_content("#training")


def test_findings_data_and_origin_in_words(page):
    findings = page.text_content("#findings")
    assert "Worth fixing: waiting for data" in findings
    assert "To do: more workers, a longer queue, a cache that is used" in findings
    assert "Then: at most 43% more samples a second" in findings
    assert "DATALOADER.TOTAL_WORKERS: cpu*1.0" in findings
    assert findings.count("waiting for data") == 2
    data = page.text_content("#data")
    assert "4 exposures: spikes and sharp frame correlate by 0.900 (median)" in data
    assert "the sequence with the lowest is test/b. The sharp" in data
    # Centres are found at 39, 42 and 40.5 where 40 is expected.
    assert "found 0.50 spike steps after its expected place (median)" in data
    origin = page.text_content("#origin")
    assert "0123456789abcdef" in origin
    assert "MODEL.USE_SPIKE" in origin

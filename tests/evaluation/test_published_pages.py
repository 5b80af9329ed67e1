"""Published results on the pages, against the table and the presets."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.helpers.presets import deblurring_presets
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.schema import load_deblurring_preset
from vrtspike.evaluation.paper_results import read_paper_results
from vrtspike.evaluation.protocols import PROTOCOLS


def section(page: Path, title: str) -> str:
    """The text below a title, up to the next one; comments in code blocks have a single #."""
    below = page.read_text(encoding="utf-8").split(f"# {title}\n")[1]
    return re.split(r"\n#{2,} ", below)[0]


def test_every_published_model_and_protocol_is_in_the_page(repository):
    text = section(repository / "docs/recipes.md", "Comparing with published results")
    rows = read_paper_results()
    names = {name.split(",")[0] for name in rows["model"]} | set(rows["protocol"])
    assert [name for name in sorted(names) if name not in text] == []


def test_the_page_compares_the_values_of_the_light_preset(repository):
    text = section(repository / "docs/recipes.md", "`light` compared with NAFNet")
    settings = load_deblurring_preset(repository / "config/presets/light.yaml")
    train, loss = settings.TRAIN, settings.LOSS.CHARBONNIER
    assert settings.DATA.CLIP_LEN == 1
    assert settings.DATA.NEIGHBOURS
    frames = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS
    cell = settings.MODEL.NAF.POOLING_CELL
    texts = [
        f"| {train.MAX_STEPS:,} x {frames} frames |",
        f"| crop | {settings.DATA.CROP_SIZE} x {settings.DATA.CROP_SIZE} |",
        f"Charbonnier, delta {loss.DELTA:.0e}".replace("e-0", "e-"),
        f"warm-up of {train.SCHED.WARMUP_STEPS:,} steps",
        f"betas {train.OPTIM.BETAS[0]} and {train.OPTIM.BETAS[1]}",
        f"weight decay {train.OPTIM.WEIGHT_DECAY:.0e}".replace("e-0", "e-"),
        f"norm {train.MAX_GRAD_NORM:g}",
        f"| {train.EMA} |",
        f"windows of {3 * cell} x {3 * cell} (3 x 3 cells of {cell})",
        f"`light` sees {train.MAX_STEPS * frames / 1e6:g} million frames",
    ]
    assert [words for words in texts if words not in text] == []


def require_measurable(settings: DeblurringSettings) -> None:
    """Refuse protocols of other blurry frames than the preset's."""
    for name in settings.TEST.PROTOCOL:
        PROTOCOLS[name].require_blur(settings.DATA.BLUR_DIR, "the preset")


def test_presets_have_the_blurry_frames_of_their_protocols(repository):
    presets = deblurring_presets(repository)
    for settings in presets.values():
        require_measurable(settings)
    protocols = {name for settings in presets.values() for name in settings.TEST.PROTOCOL}
    assert {"own", "vrt", "spkdeblurnet"} <= protocols


def test_light_spk_is_light_on_gamma_coded_frames_without_other_sensors(repository):
    presets = deblurring_presets(repository)
    expected = presets["light"].model_dump()
    expected["DATA"] |= {"BLUR_DIR": "blur_gamma", "THRESHOLD_AUGMENT": 0, "FAULT_AUGMENT": 0}
    expected["TEST"]["PROTOCOL"] = ("own", "spkdeblurnet")
    settings = presets["light_spk"]
    assert settings.model_dump() == expected
    assert settings.DATA.RATIO_AUGMENT == 0
    assert settings.TEST.TILE.SIZE == 0


def test_the_presets_of_the_page_are_measurable_under_the_protocols_of_its_rows(
    repository, tmp_path
):
    text = section(repository / "docs/recipes.md", "Comparing with published results")
    examples = re.findall(r"```yaml\n# config/presets/(\w+)\.yaml\n(.+?)```", text, re.DOTALL)
    folder = shutil.copytree(repository / "config/presets", tmp_path / "presets")
    for name, content in examples:
        (folder / f"{name}.yaml").write_text(content)
    for name in ("vrt", "basicsr", "spkdeblurnet"):
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        commands = re.findall(r"snakemake --cores \d+ evaluate_(\w+)", row)
        assert commands
        for preset in commands:
            settings = load_deblurring_preset(folder / f"{preset}.yaml")
            assert name in settings.TEST.PROTOCOL, preset
            require_measurable(settings)

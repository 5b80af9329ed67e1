"""Sizes of VRT: keys, arguments of the published model, and faults that name the stage."""

from __future__ import annotations

import json

import pytest

from vrtspike.config.loading import build_settings
from vrtspike.config.yaml_documents import parse_yaml
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.model import ModelSettings


def test_every_argument_of_vrt_has_its_key(tmp_path) -> None:
    arguments = {
        "embed_dims": [48] * 7 + [60], "num_heads": 3, "mlp_ratio": 1.5, "mul_attn_ratio": 0.5,
        "drop_path_rate": 0.1, "pa_frames": 2, "deformable_groups": 8, "indep_reconsts": [7],
        "use_checkpoint_attn": False, "use_checkpoint_ffn": False,
    }  # fmt: skip
    sizes = {"depths": [1, 2, 3, 4, 5, 6, 7, 8], "window_size": [2, 4, 8]}
    path = tmp_path / "vrt.yaml"
    path.write_text(json.dumps(arguments | sizes))
    dims = [48] * 7 + [60] * 4
    text = f"MODEL: {{VRT: {{EMBED_DIMS: {dims}}}, VRT_CFG: {path}}}\n"
    model = build_settings(parse_yaml(text, "preset.yaml")).MODEL
    # What the preset says wins over the file.
    result = json.loads(model.VRT.model_dump_json())
    expected = {name.upper(): value for name, value in arguments.items()} | {"EMBED_DIMS": dims}
    assert {name: result[name] for name in expected} == expected
    assert model.VRT_DEPTHS == (1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8)
    assert model.window == (2, 4, 8)


SOUND = [48] * 7 + [60] * 4


def backbone(dims: list[int], **vrt: object) -> DeblurringSettings:
    sizes = {"VRT_DEPTHS": [1] * 8, "VRT": {"EMBED_DIMS": dims, "NUM_HEADS": 2, **vrt}}
    return DeblurringSettings.model_validate({"MODEL": sizes})


@pytest.mark.parametrize(
    ("dims", "vrt", "message"),
    [
        *(
            (
                [*SOUND[:late], 96, *SOUND[late + 1 :]],
                {},
                rf"VRT.EMBED_DIMS\[{late}\] is 96 and VRT.EMBED_DIMS\[{early}\] is 48",
            )
            for late, early in ((4, 2), (5, 1), (6, 0))
        ),
        ([*SOUND[:-1], 64], {}, r"\[10\] is 64 and VRT.EMBED_DIMS\[7\] is 60; .* stage 8"),
        (SOUND, {"DEFORMABLE_GROUPS": 5}, "no multiple of VRT.DEFORMABLE_GROUPS, 5"),
        (
            [10] * 7 + [60] * 4,
            {"DEFORMABLE_GROUPS": 5},
            "is 10, no multiple of what stages 1-7 need, 4",
        ),
        (SOUND[:-1], {}, "EMBED_DIMS has 10 entries and VRT_DEPTHS has 11"),
        (SOUND, {"MLP_RATIO": 0.01}, "hidden layer that is not empty"),
        (SOUND, {"INDEP_RECONSTS": [1, 8]}, r"(?s)INDEP_RECONSTS\.0.*equal to 7"),
    ],
)
def test_faults_of_a_backbone_name_the_stage(dims, vrt, message) -> None:
    backbone(SOUND)
    # A network without alignment has no groups.
    backbone(SOUND, PA_FRAMES=0, DEFORMABLE_GROUPS=5)
    with pytest.raises(ValueError, match=message):
        backbone(dims, **vrt)


VRT_WEIGHTS = {"PRETRAINED": "vrt.pth", "SPYNET": "flow.pth"}


def test_vrt_tells_its_keys_and_weights() -> None:
    settings = DeblurringSettings.model_validate({"MODEL": {"VRT": VRT_WEIGHTS}})
    network = settings.MODEL.network
    assert network is settings.MODEL.VRT
    assert network.weights == {
        "MODEL.VRT.PRETRAINED": "vrt.pth", "MODEL.VRT.SPYNET": "flow.pth",
    }  # fmt: skip
    assert DeblurringSettings().MODEL.network.weights == {}
    assert network.bytes_per_pixel == 3300 + 70 * 120


def test_keys_of_vrt_say_nothing_about_the_light_model() -> None:
    light = {
        "TYPE": "spike_nafnet",
        "NAF": {"WIDTH": 8},
        "VRT": VRT_WEIGHTS,
        "PRETRAINED": "general",
    }
    settings = DeblurringSettings.model_validate({"MODEL": light})
    assert settings.MODEL.network is settings.MODEL.NAF
    assert settings.MODEL.network.weights == {}
    assert settings.MODEL.network.bytes_per_pixel == 400


def test_keys_of_other_networks_are_all_sections_but_those_of_the_network() -> None:
    light, vrt, third = (
        ModelSettings.model_construct(TYPE=name)
        for name in ("spike_nafnet", "vrt_spike", "residual_3d")
    )
    assert vrt.keys_of_other_networks == {"NAF"}
    common = {"TYPE", "PRETRAINED", "USE_SPIKE", "SPIKE_ORDER"}
    assert light.keys_of_other_networks == set(ModelSettings.model_fields) - common - {"NAF"}
    assert third.keys_of_other_networks == set(ModelSettings.model_fields) - common


def test_a_network_without_keys_is_assumed_to_need_the_most_memory() -> None:
    network = ModelSettings.model_construct(TYPE="residual_3d").network
    assert network.bytes_per_pixel > DeblurringSettings().MODEL.network.bytes_per_pixel
    assert not network.takes_neighbors
    assert (network.recompute_keys, network.keys_without_shape, network.weights) == ((), (), {})


@pytest.mark.parametrize("name", VRT_WEIGHTS)
def test_two_sources_of_weights_are_refused(name) -> None:
    both = {"PRETRAINED": "general", "VRT": {name: "vrt.pth"}}
    with pytest.raises(ValueError, match=r"PRETRAINED gives all weights, and VRT.PRETRAINED or"):
        DeblurringSettings.model_validate({"MODEL": both})

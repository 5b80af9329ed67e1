"""The terms of a training from the keys of LOSS."""

from __future__ import annotations

import pytest
import torch
from torchvision.models import alexnet
from torchvision.models.vgg import cfgs, make_layers

from tests.helpers.presets import deblurring_presets
from vrtspike.config.loading import require_trainable
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.losses import LossSettings
from vrtspike.io import backbone_weights
from vrtspike.io.backbone_weights import BACKBONES
from vrtspike.losses.lpips import build_lpips
from vrtspike.losses.registry import LOSSES, build_loss_terms
from vrtspike.system.errors import ConfigError, RunError

CPU = torch.device("cpu")


def test_every_key_has_a_registry_entry():
    assert LOSSES.keys() == LossSettings.model_fields.keys()


@pytest.mark.parametrize("name", LossSettings.model_fields)
def test_a_weight_switches_a_term_on_and_zero_switches_it_off(name):
    others = {other: {"WEIGHT": 0.0} for other in LossSettings.model_fields if other != name}
    settings = LossSettings.model_validate({**others, name: {"WEIGHT": 0.5}})
    assert {key: term.WEIGHT for key, term in settings.active.items()} == {name: 0.5}
    with pytest.raises(ValueError, match="at least one must be positive"):
        LossSettings.model_validate({**others, name: {"WEIGHT": 0.0}})


def test_losses_without_a_value_in_every_step_are_refused():
    def alone(train: dict[str, object] | None = None, **keys: object) -> DeblurringSettings:
        terms = {"CHARBONNIER": {"WEIGHT": 0}, "VGG_PERCEPTUAL": {"WEIGHT": 1, **keys}}
        return DeblurringSettings.model_validate({"LOSS": terms, "TRAIN": train or {}})

    with pytest.raises(ValueError, match="LAYERS"):
        alone(LAYERS=["relu3_4"])
    # Results of such settings can be read.
    with pytest.raises(ConfigError, match="LOSS: found EVERY above 1 in all terms"):
        require_trainable(alone(EVERY=2))
    assert not alone({"DISTILL": {"TEACHER": "results/train/a"}}, EVERY=2).training_faults()


def test_a_perceptual_loss_without_layers_is_refused():
    terms = {"VGG_PERCEPTUAL": {"WEIGHT": 0.1, "LAYERS": []}}
    # Results of such settings can be read.
    settings = DeblurringSettings.model_validate({"LOSS": terms})
    with pytest.raises(
        ConfigError, match=r"LOSS\.VGG_PERCEPTUAL\.LAYERS: found no layer, expected"
    ):
        require_trainable(settings)
    terms["VGG_PERCEPTUAL"]["WEIGHT"] = 0
    require_trainable(DeblurringSettings.model_validate({"LOSS": terms}))


def test_absent_weights_are_an_error_before_training(tmp_path):
    settings = LossSettings.model_validate({"VGG_PERCEPTUAL": {"WEIGHT": 0.1}})
    with pytest.raises(RunError, match=r"vgg16-397923af\.pth: no such file"):
        build_loss_terms(settings, tmp_path, CPU)


def test_shipped_presets_need_no_weights_for_their_loss(repository, tmp_path):
    presets = deblurring_presets(repository)
    assert "light" in presets
    for name, settings in presets.items():
        terms = build_loss_terms(settings.LOSS, tmp_path, CPU)
        assert [(term.name, term.weight) for term in terms] == [("charbonnier", 1.0)], name


@pytest.mark.parametrize("net", ["alex", "vgg"])
def test_lpips_is_that_of_the_named_backbone(net, monkeypatch, tmp_path):
    """Only the check of the published file is left out."""
    torch.manual_seed(0)
    features = alexnet(weights=None).features if net == "alex" else make_layers(cfgs["D"])
    state = {f"features.{name}": value for name, value in features.state_dict().items()}
    torch.save(state, tmp_path / BACKBONES[net])
    monkeypatch.setattr(backbone_weights, "require_published_digest", lambda path: None)
    settings = LossSettings.model_validate({"LPIPS": {"WEIGHT": 0.2, "NET": net}})
    _, lpips = build_loss_terms(settings, tmp_path, CPU)
    assert (lpips.name, lpips.weight, lpips.interval) == ("lpips", 0.2, 1)
    x, y = torch.rand(2, 1, 2, 3, 64, 64)
    # The mean over frames.
    expected = build_lpips(state, net)(x[0] * 2 - 1, y[0] * 2 - 1).mean()
    assert lpips(x, y).item() == pytest.approx(expected.item(), rel=1e-4)


def test_terms_have_names_weights_and_intervals(tmp_path):
    settings = LossSettings.model_validate(
        {
            "CHARBONNIER": {"DELTA": 4.0, "WEIGHT": 0.25},
            "VGG_PERCEPTUAL": {"WEIGHT": 0.5, "WEIGHTS": "random", "EVERY": 3},
        }
    )
    before = torch.random.get_rng_state()
    pixel, features = build_loss_terms(settings, tmp_path, CPU)
    assert torch.equal(before, torch.random.get_rng_state())
    assert (pixel.name, pixel.weight) == ("charbonnier", 0.25)
    assert pixel(torch.full((2,), 3.0), torch.zeros(2)) == 5
    assert (features.name, features.weight, features.interval) == ("vgg_random", 0.5, 3)
    # They are the same in every run, whatever was drawn before.
    torch.manual_seed(4321)
    again = build_loss_terms(settings, tmp_path, CPU)[1]
    torch.manual_seed(0)
    x, y = torch.rand(2, 1, 1, 3, 16, 16)
    assert features(x, y) == again(x, y) > 0

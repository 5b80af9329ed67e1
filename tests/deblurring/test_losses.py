from __future__ import annotations

import pytest
import torch
from torch import nn
from torchvision.models import vgg16

from vrtspike.config import load_preset
from vrtspike.config.train_schema import LossSettings
from vrtspike.deblurring.losses import Perceptual, build_terms, charbonnier
from vrtspike.errors import ConfigError, DataError

CPU = torch.device("cpu")


def test_charbonnier_values_and_gradient():
    zero = torch.zeros(2, 3)
    assert charbonnier(zero, zero, 1e-3) == pytest.approx(1e-3)
    assert charbonnier(zero + 3, zero, 4.0) == pytest.approx(5.0)
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: charbonnier(a, y, 0.1), (x,))


@pytest.fixture(scope="module")
def vgg() -> nn.Module:
    torch.manual_seed(0)
    return vgg16(weights=None)


def test_perceptual_distance_is_that_of_the_named_layers(vgg):
    x, y = torch.rand(1, 2, 3, 32, 32, requires_grad=True), torch.rand(1, 2, 3, 32, 32)
    loss = Perceptual(vgg, ("relu1_2", "relu3_3"))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    a, b = ((x[0] - mean) / std, (y[0] - mean) / std)
    expected = 0.0
    with torch.no_grad():
        for index, module in enumerate(vgg.features[:16]):
            a, b = module(a), module(b)
            if index in (3, 15):
                expected += (a - b).abs().mean()
    distance = loss(x, y)
    torch.testing.assert_close(distance, expected)
    assert loss(y, y) == 0
    distance.backward()
    assert x.grad.abs().sum() > 0
    assert not any(p.requires_grad for p in loss.parameters())


def test_unknown_layer_names_the_known_ones(vgg):
    with pytest.raises(ConfigError, match=r"'relu9_9'.*relu1_1, relu1_2.*relu5_3"):
        Perceptual(vgg, ("relu9_9",))


def test_absent_weights_are_an_error_before_training(tmp_path):
    settings = LossSettings.model_validate({"VGG_PERCEPTUAL": {"WEIGHT": 0.1}})
    with pytest.raises(DataError, match=r"vgg16-397923af\.pth: no such file"):
        build_terms(settings, str(tmp_path), CPU)
    (tmp_path / "alexnet-owt-7be5be79.pth").write_bytes(b"something else")
    settings = LossSettings.model_validate({"LPIPS": {"WEIGHT": 0.1}})
    with pytest.raises(DataError, match="not the published file"):
        build_terms(settings, str(tmp_path), CPU)


def test_shipped_presets_need_no_weights_for_their_loss(repository, tmp_path):
    for path in sorted((repository / "config/presets").glob("*.yaml")):
        terms = build_terms(load_preset(path).LOSS, str(tmp_path), CPU)
        assert [(term.name, term.weight) for term in terms] == [("charbonnier", 1.0)], path.name


def test_terms_have_names_weights_and_turns(tmp_path):
    settings = LossSettings.model_validate(
        {"VGG_PERCEPTUAL": {"WEIGHT": 0.5, "WEIGHTS": "random", "EVERY": 3}}
    )
    before = torch.random.get_rng_state()
    pixel, features = build_terms(settings, str(tmp_path), CPU)
    assert torch.equal(before, torch.random.get_rng_state())
    assert (pixel.name, pixel.weight) == ("charbonnier", 1.0)
    assert (features.name, features.weight) == ("vgg_random", 0.5)
    assert [features.is_due(step) for step in range(4)] == [True, False, False, True]
    # They are the same in every run, whatever was drawn before.
    torch.manual_seed(4321)
    again = build_terms(settings, str(tmp_path), CPU)[1]
    x, y = torch.rand(2, 1, 1, 3, 16, 16)
    assert features.distance(x, y) == again.distance(x, y) > 0


def test_lpips_of_clips_is_the_mean_over_frames():
    from torchvision.models import alexnet

    from vrtspike.deblurring.losses import LpipsDistance
    from vrtspike.deblurring.perceptual import build_lpips

    torch.manual_seed(0)
    network = build_lpips(alexnet(weights=None).state_dict(), "alex")
    loss = LpipsDistance(network)
    x, y = torch.rand(2, 1, 2, 3, 64, 64)
    single = [network(x[:, t] * 2 - 1, y[:, t] * 2 - 1).item() for t in range(2)]
    assert loss(x, y).item() == pytest.approx(sum(single) / 2, rel=1e-4)
    assert loss(x, x) == 0


def test_the_settings_of_each_term_reach_it(monkeypatch, tmp_path):
    """LPIPS with the backbone that is named; only the check of the published file is left out."""
    from torchvision.models import alexnet
    from torchvision.models.vgg import cfgs, make_layers

    from vrtspike.deblurring import losses
    from vrtspike.deblurring.perceptual import BACKBONES, build_lpips

    torch.manual_seed(0)
    networks = {"alex": alexnet(weights=None).features, "vgg": make_layers(cfgs["D"])}
    states = {
        net: {f"features.{name}": value for name, value in features.state_dict().items()}
        for net, features in networks.items()
    }
    monkeypatch.setattr(losses, "verify_weights", lambda path: None)
    x, y = torch.rand(2, 1, 1, 3, 64, 64)
    for net, state in states.items():
        torch.save(state, tmp_path / BACKBONES[net])
        settings = LossSettings.model_validate(
            {"CHARBONNIER": {"WEIGHT": 0.5, "DELTA": 4.0}, "LPIPS": {"WEIGHT": 0.2, "NET": net}}
        )
        pixel, lpips = build_terms(settings, str(tmp_path), CPU)
        assert [(t.name, t.weight, t.every) for t in (pixel, lpips)] == [
            ("charbonnier", 0.5, 1),
            ("lpips", 0.2, 1),
        ]
        assert pixel.distance(x + 3, x).item() == pytest.approx(5.0)
        expected = build_lpips(state, net)(x[:, 0] * 2 - 1, y[:, 0] * 2 - 1)
        assert lpips.distance(x, y).item() == pytest.approx(expected.item(), rel=1e-4)

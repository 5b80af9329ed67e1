"""Objects that move by themselves: shapes, places, speeds and colours."""

from __future__ import annotations

import numpy as np
import pytest

from vrtspike.data.simulation.scenes import (
    MAX_SPEED,
    MovingObject,
    draw_objects,
    random_color,
    random_object,
)

HEIGHT, WIDTH, FRAMES = 96, 128, 22


def draw(seed: int) -> MovingObject:
    random = np.random.default_rng(seed)
    photograph = random.uniform(0, 255, (60, 80, 3)).astype(np.float32)
    return random_object(
        random, photograph, height=HEIGHT, width=WIDTH, frames=FRAMES, frames_per_exposure=11
    )


def square(start: tuple[float, float], value: float = 200.0, spin: float = 0.0) -> MovingObject:
    """Three pixels of opacity 1 on each side."""
    opacity = np.pad(np.ones((3, 3), np.float32), 1)
    texture = np.full((5, 5, 3), value, np.float32)
    return MovingObject(texture, opacity, np.array(start), np.array([2.0, 1.0]), spin)


def test_an_object_is_drawn_about_its_centre_which_moves_on_with_the_frames():
    scene = np.full((12, 16, 3), 10, np.float32)
    for frame, (x, y) in enumerate([(4, 5), (6, 6), (8, 7)]):
        drawn = square((4, 5)).draw(scene, frame)
        expected = scene.copy()
        expected[y - 1 : y + 2, x - 1 : x + 2] = 200
        np.testing.assert_allclose(drawn, expected, atol=1e-3)
    assert (scene == 10).all()


def test_an_object_turns_about_its_centre():
    scene = np.zeros((12, 16, 3), np.float32)
    bar = square((5, 5), spin=np.pi / 2)
    bar.opacity[[1, 3]] = 0
    rows, columns = np.nonzero(bar.draw(scene, 0)[..., 0] > 100)
    assert (set(rows), set(columns)) == ({5}, {4, 5, 6})
    rows, columns = np.nonzero(bar.draw(scene, 1)[..., 0] > 100)
    assert (set(rows), set(columns)) == ({5, 6, 7}, {7})


def test_the_last_object_is_the_nearest():
    scene = np.zeros((12, 16, 3), np.float32)
    objects = [square((4, 5), 100), square((5, 5), 200)]
    assert draw_objects(scene, objects, 0)[5, 3:7, 0] == pytest.approx([100, 200, 200, 200])
    assert draw_objects(scene, objects[::-1], 0)[5, 3:7, 0] == pytest.approx([100, 100, 100, 200])
    assert draw_objects(scene, [], 0) is scene


def test_objects_differ_in_shape_place_speed_and_texture():
    objects = [draw(seed) for seed in range(60)]
    speeds = np.array([np.hypot(*item.velocity) for item in objects]) * 11 / HEIGHT
    assert speeds.min() < 0.2 * MAX_SPEED < 0.8 * MAX_SPEED < speeds.max() <= MAX_SPEED
    middles = np.array([item.start + item.velocity * FRAMES / 2 for item in objects])
    assert (middles >= 0).all()
    assert (middles <= [WIDTH, HEIGHT]).all()
    assert (middles.std(axis=0) > [WIDTH / 5, HEIGHT / 5]).all()
    areas = np.array([item.opacity.sum() for item in objects]) / HEIGHT**2
    assert areas.min() < 0.01
    assert areas.max() > 0.1
    for item in objects:
        assert item.texture.shape == (*item.opacity.shape, 3)
        assert (item.texture.dtype, item.opacity.dtype) == (np.float32, np.float32)
        assert 0 <= item.texture.min() <= item.texture.max() <= 255
        border = np.concatenate([item.opacity[[0, -1]].ravel(), item.opacity[:, [0, -1]].ravel()])
        assert item.opacity.max() == 1
        assert not border.any()
    plain = [bool((item.texture == item.texture[0, 0]).all()) for item in objects]
    assert 8 < sum(plain) < 32


def test_colours_reach_all_hues_from_grey_to_pure():
    random = np.random.default_rng(0)
    colours = np.array([random_color(random) for _ in range(500)])
    assert colours.min() >= 0
    assert 240 < colours.max() <= 250
    saturation = 1 - colours.min(axis=1) / colours.max(axis=1)
    assert np.histogram(saturation, 4, (0, 1))[0].min() > 90
    assert np.bincount(colours.argmax(axis=1)).min() > 130
    assert np.bincount(colours.argmin(axis=1)).min() > 130

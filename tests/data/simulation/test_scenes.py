"""Scenes with objects that move by themselves."""

from __future__ import annotations

import numpy as np

from tests.data.scenes import texture
from vrtspike.data.simulation.scenes import Camera, MovingObject, film, film_sequence
from vrtspike.io.images import read_rgb

HEIGHT, WIDTH, FRAMES = 48, 64, 6
CAMERA = Camera(HEIGHT, WIDTH, 110)


def frames(*objects: MovingObject) -> np.ndarray:
    photograph = texture(0, 120, 160).astype(np.float32)
    random = np.random.default_rng(1)
    return np.stack(list(film(photograph, CAMERA, random, FRAMES, objects)))


def test_an_object_hides_the_scene_where_it_is_and_nothing_else():
    opacity = np.pad(np.ones((5, 5), np.float32), 1)
    white = np.full((7, 7, 3), 255, np.float32)
    item = MovingObject(white, opacity, np.array([10.0, 20.0]), np.array([3.0, 0.0]), 0.0)
    scene, with_object = frames(), frames(item)
    for number in range(FRAMES):
        hidden = np.zeros((HEIGHT, WIDTH), bool)
        hidden[18:23, 8 + 3 * number : 13 + 3 * number] = True
        assert (with_object[number][hidden] == 255).all()
        assert (with_object[number] == scene[number])[~hidden].all()


def test_a_sequence_shows_as_many_objects_as_asked_for(tmp_path):
    sharp = []
    for objects in (0, 3):
        folder = tmp_path / f"{objects}_11_00"
        photograph = np.full((120, 160, 3), 128, np.float32)
        random = np.random.default_rng(4)
        count = film_sequence(folder, photograph, CAMERA, random, exposures=1, objects=objects)
        assert count == 1
        sharp.append(read_rgb(folder / "sharp/000001.png"))
    # The photograph is grey all over.
    assert (sharp[0] == 128).all()
    assert 20 < (sharp[1] != 128).any(axis=2).sum() < HEIGHT * WIDTH / 2

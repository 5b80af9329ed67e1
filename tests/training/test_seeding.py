from __future__ import annotations

import random

import numpy as np
import torch

from vrtspike.training.seeding import mix_seed, seed_everything


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def test_all_generators_depend_on_every_number_and_nothing_else():
    seed_everything(1, 2)
    first = draw()
    draw()
    seed_everything(1, 2)
    assert draw() == first
    seed_everything(2, 1)
    assert not set(draw()) & set(first)


def test_seeds_fit_and_differ():
    seeds = {mix_seed(a, b) for a in range(50) for b in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert mix_seed(1, 23) != mix_seed(12, 3)

from __future__ import annotations

import pytest

from vrtspike.errors import ConfigError
from vrtspike.sst.model import RecursiveAttentionTransformer
from vrtspike.sst.parameters import plain_parameters, preset_values, read_trainer_parameters


def test_the_other_documents_names_mean_the_same():
    given = {"ims_per_gpu": 64, "gradient_accumulation_steps": 2, "use_fp16": True}
    found = read_trainer_parameters(given | {"precision": "16-mixed"})
    names = ("batch_size", "accumulate_grad_batches", "precision")
    assert [found[name] for name in names] == [64, 2, "16-mixed"]
    assert read_trainer_parameters({"use_fp16": False})["precision"] == "32"
    # A number where other programs take one.
    assert read_trainer_parameters({"precision": 32})["precision"] == "32"
    for benchmark in (True, False):
        found = read_trainer_parameters({"cudnn_benchmark": benchmark})
        assert found["cudnn_deterministic"] is not benchmark


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batchsize": 8}, "trainer_params: unknown parameter batchsize; did you mean batch_size?"),
        ({"EPOCHS": 8}, "did you mean epochs?"),
        ({"xyz": 8}, "unknown parameter xyz; known here: epochs, "),
        ({"epochs": 0}, "trainer_params: epochs: TRAIN.EPOCHS: found 0"),
        ({"epochs": "many"}, "trainer_params: epochs: TRAIN.EPOCHS: found 'many'"),
        ({"precision": "16"}, "trainer_params: precision: TRAIN.PRECISION: found '16'"),
        ({"gradient_clip_val": 0}, "trainer_params: gradient_clip_val: TRAIN.MAX_GRAD_NORM"),
        ({"use_fp16": 1}, "use_fp16 is 1, expected True or False"),
        ({"use_fp16": True, "precision": "32"}, "precision says precision '32', another name"),
        ({"ims_per_gpu": 2, "batch_size": 3}, "batch_size says batch_size 3, another name 2"),
        ({"cudnn_benchmark": True, "cudnn_deterministic": True}, "another name False"),
        ({"gradient_clip_algorithm": "value"}, "gradient_clip_algorithm is 'value', expected"),
    ],
)
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(ConfigError) as caught:
        preset_values(read_trainer_parameters(given), 1e-3)
    assert words in str(caught.value)


def test_arguments_of_a_class_are_checked_by_their_names():
    size = {"width": 8, "height": 8, "seq_len": 2}
    assert plain_parameters(RecursiveAttentionTransformer, size, "model_params") == size
    for given, words in (
        (size | {"d_modl": 8}, "model_params: unknown parameter d_modl; did you mean d_model?"),
        ({"width": 8, "seq_len": 2}, "model_params: missing a required argument: 'height'"),
    ):
        with pytest.raises(ConfigError) as caught:
            plain_parameters(RecursiveAttentionTransformer, given, "model_params")
        assert words in str(caught.value)

    def made(seq_len: int, *, area: object, **more: object) -> None: ...

    plain_parameters(made, {"seq_len": 1, "anything": 2}, "dataset_params", area=1)
    with pytest.raises(ConfigError, match="unknown parameter area"):
        plain_parameters(RecursiveAttentionTransformer, size | {"area": 2}, "p", area=1)

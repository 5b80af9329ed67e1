from __future__ import annotations

import pytest

from vrtspike.errors import ConfigError
from vrtspike.sst.model import RecursiveAttentionTransformer
from vrtspike.sst.parameters import (
    TrainerParameters,
    read_trainer_parameters,
    require_arguments,
    takes,
)


def test_the_defaults_are_those_of_the_document():
    defaults = read_trainer_parameters({}).model_dump()
    assert (
        defaults.items()
        >= {
            "num_workers": 8,
            "pin_memory": True,
            "persistent_workers": True,
            "prefetch_factor": 2,
            "precision": "16-mixed",
            "accumulate_grad_batches": 1,
            "gradient_clip_val": None,
            "gradient_clip_algorithm": "norm",
            "compile_model": False,
            "compile_mode": "default",
        }.items()
    )


def test_all_parameters_of_the_document_are_known():
    given = {
        "epochs": 500,
        "batch_size": 150,
        "num_workers": 6,
        "pin_memory": False,
        "persistent_workers": False,
        "prefetch_factor": 4,
        "precision": "bf16-mixed",
        "accumulate_grad_batches": 2,
        "gradient_clip_val": 0.5,
        "gradient_clip_algorithm": "norm",
        "compile_model": True,
        "compile_mode": "reduce-overhead",
    }
    found = read_trainer_parameters(given).model_dump()
    assert found.items() >= given.items()


def test_the_other_documents_names_mean_the_same():
    found = read_trainer_parameters(
        {
            "ims_per_gpu": 64,
            "gradient_accumulation_steps": 2,
            "use_fp16": True,
            "precision": "16-mixed",
        }
    )
    assert (found.batch_size, found.accumulate_grad_batches, found.precision) == (64, 2, "16-mixed")
    assert read_trainer_parameters({"use_fp16": False}).precision == "32"
    # A number where other programs take one.
    assert read_trainer_parameters({"precision": 32}).precision == "32"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batchsize": 8}, "unknown parameter batchsize; did you mean batch_size?"),
        ({"EPOCHS": 8}, "did you mean epochs?"),
        ({"xyz": 8}, "unknown parameter xyz; known here: epochs, "),
        ({"epochs": 0}, "trainer_params: epochs: found 0"),
        ({"epochs": "many"}, "epochs: found 'many'"),
        ({"precision": "16"}, "precision: found '16'"),
        ({"use_fp16": 1}, "use_fp16 is 1, expected True or False"),
        ({"use_fp16": True, "precision": "32"}, "use_fp16 and precision say different things"),
        ({"ims_per_gpu": 2, "batch_size": 3}, "ims_per_gpu and batch_size say different"),
        ({"gradient_clip_algorithm": "value"}, "gradient_clip_algorithm: found 'value'"),
        ({"gradient_clip_val": 0}, "gradient_clip_val: found 0"),
        (
            {"cudnn_benchmark": True, "cudnn_deterministic": True},
            "cudnn_benchmark and cudnn_deterministic are both True",
        ),
        ({"cudnn_benchmark": False}, "are both False"),
    ],
)
def test_what_makes_no_sense_is_refused(given, words):
    with pytest.raises(ConfigError) as caught:
        read_trainer_parameters(given)
    assert words in str(caught.value)


def test_one_way_of_cudnn_is_enough():
    assert read_trainer_parameters({"cudnn_benchmark": True}).cudnn_deterministic is False
    found = read_trainer_parameters({"cudnn_benchmark": False, "cudnn_deterministic": True})
    assert found.cudnn_deterministic is True


def test_arguments_of_a_class_are_checked_by_their_names():
    size = {"width": 8, "height": 8, "seq_len": 2}
    require_arguments(RecursiveAttentionTransformer, size, "model_params")
    for given, words in (
        (size | {"d_modl": 8}, "model_params: unknown parameter d_modl; did you mean d_model?"),
        ({"width": 8, "seq_len": 2}, "model_params: height is missing"),
    ):
        with pytest.raises(ConfigError) as caught:
            require_arguments(RecursiveAttentionTransformer, given, "model_params")
        assert words in str(caught.value)

    def made(seq_len: int, *, area: object, **more: object) -> None: ...

    require_arguments(made, {"seq_len": 1, "anything": 2}, "dataset_params", ("area",))
    with pytest.raises(ConfigError, match="dataset_params: seq_len is missing"):
        require_arguments(made, {}, "dataset_params", ("area",))

    def strict(seq_len: int, area: object = None) -> None: ...

    with pytest.raises(ConfigError, match="unknown parameter area"):
        require_arguments(strict, {"seq_len": 1, "area": 2}, "dataset_params", ("area",))
    assert takes(strict, "area")
    assert not takes(strict, "width")


def test_every_parameter_says_what_it_is():
    for name, field in TrainerParameters.model_fields.items():
        assert field.description, name

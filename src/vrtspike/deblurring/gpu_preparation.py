"""What a GPU needs before the first step: compiled kernels, one decision for all ranks, memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping

import torch

from vrtspike.deblurring.data.clips.requirements import largest_crop
from vrtspike.deblurring.kernel_compilation import KernelLaunch, compile_ahead, keep_cache_place
from vrtspike.deblurring.models import Restorer
from vrtspike.deblurring.models.ops.dispatch import (
    TOLERANCES,
    VARIABLE,
    Compute,
    Operation,
    check_names,
    disabled_by_environment,
    obstacle,
    refusal,
    settle,
)
from vrtspike.deblurring.models.ops.registry import OPERATIONS
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.traced_step import peak_bytes, step_launches, trial_launches
from vrtspike.errors import RunError
from vrtspike.training.distributed import Ranks
from vrtspike.training.precision import Precision

_GIB = 2**30


def check_variable() -> None:
    """Refuse names of operations in the environment variable that there are not.

    Raises:
        ConfigError: names variable, name and what there is.
    """
    known = [operation.name for operation in OPERATIONS]
    check_names(disabled_by_environment(), known, f"environment variable {VARIABLE}")


def prepare_gpu(
    model: Restorer, settings: Settings, ranks: Ranks, tell: Callable[[str], None]
) -> None:
    """Compile the kernels of a run, try them, and see that a step fits without those refused.

    Args:
        model: on the CUDA device of this process.
        settings: of the run.
        ranks: the processes; the first of each machine compiles for all of them.
        tell: shows a message.

    Raises:
        RunError: a trial cannot say (see :func:`~vrtspike.deblurring.models.ops.dispatch.refusal`),
            or a step needs more memory than the device has; then on all ranks.
    """
    device, dtype = ranks.device, Precision(settings.TRAIN, ranks.device).compute_type
    if dtype not in TOLERANCES:  # a run in float32 has no kernels that could be missing
        return
    compute = Compute(disabled=frozenset(settings.MODEL.DISABLE_KERNELS))
    refused = {o.name: obstacle(o.name, device, dtype, compute) for o in OPERATIONS}
    usable = [operation for operation in OPERATIONS if not refused[operation.name]]
    if usable:
        keep_cache_place()
        used = None
        if ranks.local_rank == 0:
            used = _compile(model, settings, device, dtype, usable, tell)
        # The exchange is a barrier, too.
        used = ranks.gather(used)[0]
        tried = [operation for operation in usable if used is None or operation.name in used]
        settle(tried, device, dtype, ranks.gather)
        refused |= {o.name: refusal(o, device, dtype) for o in tried}
    _check_memory(model, settings, ranks, {k: v for k, v in refused.items() if v}, tell)


def _compile(
    model: Restorer,
    settings: Settings,
    device: torch.device,
    dtype: torch.dtype,
    operations: Iterable[Operation],
    tell: Callable[[str], None],
) -> list[str] | None:
    """Compile what the run will launch; a failure costs time at the first launch, nothing else.

    Returns:
        The names of the operations that the model launches; None if that is unknown.
    """
    try:
        launches = step_launches(model, settings, device)
        used = [o for o in operations if any(_belongs(launch, o) for launch in launches)]
        compile_ahead([*launches, *trial_launches(used, device, dtype)], tell)
    except Exception as error:  # of PyTorch's tracing or of Triton, whose inner parts are used
        tell(
            f"kernels are compiled at their first launch, not ahead of it: "
            f"{type(error).__name__}: {error}"
        )
        return None
    return [operation.name for operation in used]


def _belongs(launch: KernelLaunch, operation: Operation) -> bool:
    return f".ops.{operation.name}." in launch.module


def _check_memory(
    model: Restorer,
    settings: Settings,
    ranks: Ranks,
    refused: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Compare what a step needs with the device, where kernels are missing.

    Presets are sized for steps with kernels, which keep far less for the backward pass. With
    ``TRAIN.COMPILE_MODEL`` it warns and does not end the run: the step is traced uncompiled, and
    PyTorch's compiler decides itself what a block keeps, so that the run may fit all the same.
    """
    if not refused:
        return
    total = torch.cuda.get_device_properties(ranks.device).total_memory
    fault = ""
    try:
        needed = peak_bytes(model, settings, ranks.device, largest_crop(settings))
    except Exception as error:  # of PyTorch's tracing
        tell(f"whether a step fits into memory is not known: {type(error).__name__}: {error}")
    else:
        if needed > total:
            fault = memory_fault(settings, str(ranks.device), refused, needed, total)
    fault = next(filter(None, ranks.gather(fault)), "")
    if fault and settings.TRAIN.COMPILE_MODEL:
        warnings.warn(f"{fault} TRAIN.COMPILE_MODEL may make it less", stacklevel=2)
    elif fault:
        raise RunError(fault)


def memory_fault(
    settings: Settings, device: str, refused: Mapping[str, str], needed: int, total: int
) -> str:
    """Why a step does not fit, and the keys that make it smaller.

    Args:
        settings: of the run.
        device: its name.
        refused: why a kernel is not used, by operation.
        needed: bytes of a step.
        total: bytes of the device.
    """
    vrt, train = settings.MODEL.VRT, settings.TRAIN
    reasons = ", ".join(f"{name} ({reason})" for name, reason in refused.items())
    advice = []
    if vrt.RECOMPUTE != "cheap":
        advice.append("set MODEL.VRT.RECOMPUTE to cheap")
    if not (vrt.USE_CHECKPOINT_ATTN and vrt.USE_CHECKPOINT_FFN):
        advice.append("set MODEL.VRT.USE_CHECKPOINT_ATTN and MODEL.VRT.USE_CHECKPOINT_FFN to true")
    if train.BATCH_SIZE > 1:
        advice.append(
            f"lower TRAIN.BATCH_SIZE (now {train.BATCH_SIZE}) and raise "
            "TRAIN.GRADIENT_ACCUMULATION_STEPS by the same factor"
        )
    advice.append("lower DATA.CROP_SIZE or DATA.CLIP_LEN")
    return (
        f"{device}: without the kernels of {reasons} a training step needs about "
        f"{needed / _GIB:.1f} GiB, the device has {total / _GIB:.1f} GiB. In this order: "
        f"{'; '.join(advice)}."
    )

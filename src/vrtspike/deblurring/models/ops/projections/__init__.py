"""Linear layers around attention: layer norm and projections before it, projection after it.

Kernels take norm, padding, position codes and residual into the pass of the product.
"""

from vrtspike.deblurring.models.ops.projections.operation import (
    OPERATION,
    add_linear,
    add_output,
    attention_inputs,
    norm_linear,
)

__all__ = ["OPERATION", "add_linear", "add_output", "attention_inputs", "norm_linear"]

"""The array library of a call. A library has these functions:

- `attention`: the forward pass, with a backward pass if gradients are wanted: o, lse, and the profiles as JSON.
- `device_of`: where an array lies: "cpu" or "cuda".
- `swap_heads`, `contiguous`: `[B, N, H, D]` from `[B, H, N, D]` and back, without a copy; a copy without gaps.
- `detached`, `copied`: an array without its gradient; a copy.
- `float32`, `like`: an array in float32; an array with the type of another one.
- `concatenate`: arrays joined along the first axis.
- `check_writable`, `strides`: raises if an array cannot be written; the stride of each axis, in any unit.
- `decode`: `_native.sim_decode`.
"""

import sys


def library_of(q, **others):
    """The library of `q`, which must be that of the other arguments too, where they are not None."""
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    if torch is None:
        from . import with_numpy

        return with_numpy
    is_torch = isinstance(q, torch.Tensor)
    for argument, x in others.items():
        if x is not None and isinstance(x, torch.Tensor) != is_torch:
            raise TypeError(f"`{argument}` is {type(x)}, expected the type of `q`, {type(q)}")
    if is_torch:
        from . import with_torch

        return with_torch
    from . import with_numpy

    return with_numpy

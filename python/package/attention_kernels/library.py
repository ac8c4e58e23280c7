"""The array library of a call. A library has these functions:

- `attention`: the forward pass, with a backward pass if gradients are wanted: o, lse, and the profiles as JSON.
- `mask`: a mask as `_native.Options` takes it.
- `seed`: a number of the library's global generator.
- `swap_heads`, `contiguous`: `[B, N, H, D]` from `[B, H, N, D]` and back, without a copy; a copy without gaps.
"""

import sys


def library_of(q, k, v):
    """The library of `q`, which must be that of `k` and `v` too."""
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    if torch is None:
        from . import with_numpy

        return with_numpy
    is_torch = isinstance(q, torch.Tensor)
    for argument, x in (("k", k), ("v", v)):
        if isinstance(x, torch.Tensor) != is_torch:
            raise TypeError(f"`{argument}` is {type(x)}, expected the type of `q`, {type(q)}")
    if is_torch:
        from . import with_torch

        return with_torch
    from . import with_numpy

    return with_numpy

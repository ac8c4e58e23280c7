"""The function `launch`: a kernel of one's own on the simulated GPU."""

import json
import operator

import numpy

from . import _native


def launch(source, kernel, *arguments, grid, block, return_profile=False):
    """Runs a kernel on a simulated GPU, which checks every access, and returns a list of the arrays as they are then.

    `source` is CUDA C++, which needs NVRTC (`pip install nvidia-cuda-nvrtc-cu12`), or PTX. `kernel` is the name of an
    `extern "C"` function in it. Its arguments, in order, are float32 arrays of one axis, which are copied to the device, and
    numbers: an `int` for an `int`, a `float` for a `float`. `grid` and `block` are integers or up to three of them:
    anything with `__index__`.

    With `return_profile=True` the result is `(arrays, profile)`: a dict with the counters of the launch.

    Raises DeviceError with the report if the kernel makes a mistake: a race, an access out of bounds, a read of memory
    that was never written.
    """
    sizes = _sizes("grid", grid), _sizes("block", block)
    arrays, profile = _native.sim_launch(source, kernel, arguments, *sizes)
    arrays = [numpy.from_dlpack(array) for array in arrays]
    return (arrays, json.loads(profile)) if return_profile else arrays


def _sizes(argument, value):
    sizes = _integers(value)
    if not 1 <= len(sizes) <= 3 or not all(0 < size < 1 << 31 for size in sizes):
        raise ValueError(f"`{argument}` is {value!r}, expected one to three positive integers")
    return sizes + (1,) * (3 - len(sizes))


def _integers(value):
    """One integer or several, of any type that has `__index__`, as a tuple. Empty if they are none."""
    try:
        return (operator.index(value),)
    except TypeError:  # several; an array has `__index__`, too
        pass
    try:
        return tuple(map(operator.index, value))
    except TypeError:
        return ()

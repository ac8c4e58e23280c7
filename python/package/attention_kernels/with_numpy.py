"""Attention on arrays of NumPy, and of libraries other than PyTorch."""

import numpy

from . import _native


def attention(q, k, v, options, device, profile):
    if device == "cpu":
        o, lse = _native.cpu_forward(q, k, v, options)
        launches = []
    else:
        o, lse, launches = _native.sim_forward(q, k, v, options, profile)
    return numpy.from_dlpack(o), numpy.from_dlpack(lse), launches


def mask(argument, mask):
    return mask


def seed():
    return int(numpy.random.randint(0, 1 << 63, dtype=numpy.uint64))


def swap_heads(argument, x):
    x = numpy.asarray(x)
    if x.ndim != 4:
        raise ValueError(f"`{argument}` has {x.ndim} axes, expected 4")
    return x.swapaxes(1, 2)


def contiguous(x):
    return numpy.ascontiguousarray(x)

"""Attention on arrays of NumPy, and of libraries other than PyTorch."""

import numpy

from . import _native

DLPACK_CUDA = 2


def attention(q, k, v, options, device, profile):
    options = native(options)
    if device == "cpu":
        o, lse = _native.cpu_forward(q, k, v, options)
        return numpy.from_dlpack(o), numpy.from_dlpack(lse), []
    if device == "sim":
        o, lse, launches = _native.sim_forward(q, k, v, options, profile)
        return numpy.from_dlpack(o), numpy.from_dlpack(lse), launches
    if device_of(q) != "cuda":
        raise ValueError("`q` is not on a CUDA device")
    library = q.__array_namespace__()
    o = library.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = library.empty(q.shape[:3], dtype=library.float32, device=q.device)
    _native.cuda_forward(q, k, v, options, o, lse, None)
    return o, lse, []


def native(options):
    dropout = options["dropout"]
    if dropout is not None and dropout[1] is None:
        seed = int(numpy.random.randint(0, 1 << 63, dtype=numpy.uint64))
        options = {**options, "dropout": (dropout[0], seed)}
    return _native.Options(**options)


def device_of(x):
    if isinstance(x, numpy.ndarray) or not hasattr(x, "__dlpack_device__"):
        return "cpu"
    return "cuda" if x.__dlpack_device__()[0] == DLPACK_CUDA else "cpu"


def swap_heads(x):
    return numpy.asarray(x).swapaxes(1, 2)


def contiguous(x):
    return numpy.ascontiguousarray(x)


def detached(x):
    return x


def float32(x):
    return x.astype(numpy.float32, copy=False)


def like(x, y):
    return x.astype(y.dtype)


def concatenate(arrays):
    return numpy.concatenate(arrays)


def copied(x):
    return x.copy()


def check_writable(argument, x):
    if not isinstance(x, numpy.ndarray):
        raise TypeError(f"`{argument}` is {type(x)}, expected an array of NumPy, as it is written in place")
    if not x.flags.writeable:
        raise ValueError(f"`{argument}` is read-only")


def strides(x):
    return x.strides


def decode(q, k_cache, v_cache, *step):
    """`o` and `lse` on the simulated device."""
    return tuple(map(numpy.from_dlpack, _native.sim_decode(q, k_cache, v_cache, *step)))

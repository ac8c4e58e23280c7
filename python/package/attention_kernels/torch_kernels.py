"""The compiled part's functions on tensors of PyTorch, without gradients."""

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from . import _native


def forward(q, k, v, options, device, profile):
    tensors = lend("q", q), lend("k", k), lend("v", v)
    if device == "cpu":
        o, lse = _native.cpu_forward(*tensors, options)
        return take(o), take(lse), []
    if device == "sim":
        o, lse, launches = _native.sim_forward(*tensors, options, profile)
        return take(o), take(lse), launches
    if not q.is_cuda:
        raise ValueError(f"`q` is on {q.device}, expected a CUDA device")
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    _native.cuda_forward(*tensors, options, to_dlpack(o), to_dlpack(lse), stream_of(q))
    return o, lse, []


def backward(q, k, v, o, lse, d_o, options, device):
    if device == "cuda":
        q, k, v, o, lse, d_o = (x.contiguous() for x in (q, k, v, o, lse, d_o))
        gradients = [torch.empty_like(x) for x in (q, k, v)]
        tensors = [to_dlpack(x.detach()) for x in (o, lse, d_o, *gradients)]
        _native.cuda_backward(lend("q", q), lend("k", k), lend("v", v), options, *tensors, stream_of(q))
        return tuple(gradients)
    run = _native.cpu_backward if device == "cpu" else _native.sim_backward
    q, k, v = lend("q", q), lend("k", k), lend("v", v)
    o, lse, d_o = lend("o", o), lend("lse", lse), lend("d_o", d_o)
    return tuple(take(gradient) for gradient in run(q, k, v, options, o, lse, d_o))


def native(options):
    dropout = options["dropout"]
    if dropout is not None and dropout[1] is None:
        dropout = dropout[0], int(torch.randint(0, (1 << 63) - 1, ()))
    masks = {name: lend_mask(name, options[name]) for name in ("mask", "blocks")}
    return _native.Options(**{**options, **masks, "dropout": dropout})


def lend_mask(argument, mask):
    return lend(argument, mask) if isinstance(mask, torch.Tensor) else mask  # None, or of another library


def lend(argument, x):
    """A capsule with the tensor, by the conversion in C++: `Tensor.__dlpack__` takes ten times as long."""
    try:
        return to_dlpack(x.resolve_neg())
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"`{argument}`: {error}") from error


def take(exported):
    return from_dlpack(exported.__dlpack__(max_version=(1, 0)))


def stream_of(x):
    return torch.cuda.current_stream(x.device).cuda_stream

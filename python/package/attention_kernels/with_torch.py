"""Attention on tensors of PyTorch, with its backward pass."""

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from . import _native


def attention(q, k, v, options, device, profile):
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        launches = []
        o, lse = Attention.apply(q, k, v, options, device, profile, launches)
        return o, lse, launches
    return forward(q, k, v, options, device, profile)


class Attention(torch.autograd.Function):
    """Attention whose backward pass computes the scores again, from `lse`."""

    @staticmethod
    def forward(ctx, q, k, v, options, device, profile, launches):
        o, lse, profiles = forward(q, k, v, options, device, profile)
        launches += profiles
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mark_non_differentiable(lse)
        ctx.options, ctx.device = options, device
        return o, lse

    @staticmethod
    def backward(ctx, d_o, _):
        gradients = Gradients.apply(*ctx.saved_tensors, d_o, ctx.options, ctx.device)
        return *gradients, None, None, None, None


class Gradients(torch.autograd.Function):
    """The backward pass, with a backward pass that raises."""

    @staticmethod
    def forward(ctx, q, k, v, o, lse, d_o, options, device):
        run = _native.cpu_backward if device == "cpu" else _native.sim_backward
        q, k, v = lend("q", q), lend("k", k), lend("v", v)
        o, lse, d_o = lend("o", o), lend("lse", lse), lend("d_o", d_o)
        return tuple(take(gradient) for gradient in run(q, k, v, options, o, lse, d_o))

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError("the second derivative of attention is not supported")


def forward(q, k, v, options, device, profile):
    q, k, v = lend("q", q), lend("k", k), lend("v", v)
    if device == "cpu":
        o, lse = _native.cpu_forward(q, k, v, options)
        launches = []
    else:
        o, lse, launches = _native.sim_forward(q, k, v, options, profile)
    return take(o), take(lse), launches


def lend(argument, x):
    """A capsule with the tensor, by the conversion in C++: `Tensor.__dlpack__` takes ten times as long."""
    try:
        return to_dlpack(x.resolve_neg())
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"`{argument}`: {error}") from error


def take(exported):
    return from_dlpack(exported.__dlpack__(max_version=(1, 0)))


def mask(argument, mask):
    if not isinstance(mask, torch.Tensor):
        return mask  # None, or of another library
    if mask.requires_grad:
        raise NotImplementedError(f"`{argument}` requires a gradient, which is not supported")
    return lend(argument, mask)


def seed():
    return int(torch.randint(0, (1 << 63) - 1, ()))


def swap_heads(argument, x):
    if x.ndim != 4:
        raise ValueError(f"`{argument}` has {x.ndim} axes, expected 4")
    return x.transpose(1, 2)


def contiguous(x):
    return x.contiguous()

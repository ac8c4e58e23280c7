"""Attention on tensors of PyTorch, with its backward pass."""

import torch

from . import _native, operators
from .torch_kernels import backward, forward, lend, native, take


def attention(q, k, v, options, device, profile):
    mask = options["mask"]
    if isinstance(mask, torch.Tensor) and mask.requires_grad:
        raise NotImplementedError("`mask` requires a gradient, which is not supported")
    if torch.compiler.is_compiling():
        if profile:
            raise NotImplementedError("`return_profile` is not supported in a graph of `torch.compile`")
        o, lse = operators.attention(q, k, v, *operators.flat(options), device)
        return o, lse, []
    options = native(options)
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
        return backward(q, k, v, o, lse, d_o, options, device)

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError("the second derivative of attention is not supported")


def device_of(x):
    return "cuda" if x.is_cuda else "cpu"


def swap_heads(x):
    return x.transpose(1, 2)


def contiguous(x):
    return x.contiguous()


def detached(x):
    return x.detach()


def float32(x):
    return x.float()


def like(x, y):
    return x.to(y.dtype)


def concatenate(arrays):
    return torch.cat(arrays)


def copied(x):
    return x.clone()


def check_writable(argument, x):
    if x.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError(f"`{argument}` was made in inference mode, and is written outside of it")


def strides(x):
    return x.stride()


def decode(q, k_cache, v_cache, *step):
    """`o` and `lse` on the simulated device."""
    return tuple(map(take, _native.sim_decode(lend("q", q), lend("k_cache", k_cache), lend("v_cache", v_cache), *step)))

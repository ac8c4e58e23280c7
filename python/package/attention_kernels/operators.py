"""Attention as operators of PyTorch, which `torch.compile` traces. Eager calls do without them: an operator adds to the time
of a call.

The options of an operator are those of `attention`, flat: an operator takes no tuples and no dicts.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import torch_kernels


@torch.library.custom_op("attention_kernels::attention", mutates_args=())
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None,
    left: int | None,
    right: int | None,
    key_lengths: Sequence[int] | None,
    mask: Tensor | None,
    blocks: Tensor | None,
    dropout_p: float,
    seed: Tensor | None,
    device: str,
) -> tuple[Tensor, Tensor]:
    """`o` and `lse`."""
    options = native(causal, scale, left, right, key_lengths, mask, blocks, dropout_p, seed)
    o, lse, _ = torch_kernels.forward(q, k, v, options, device, False)
    return o, lse


@torch.library.custom_op("attention_kernels::attention_backward", mutates_args=())
def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    d_o: Tensor,
    causal: bool,
    scale: float | None,
    left: int | None,
    right: int | None,
    key_lengths: Sequence[int] | None,
    mask: Tensor | None,
    blocks: Tensor | None,
    dropout_p: float,
    seed: Tensor | None,
    device: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by `q`, `k` and `v`."""
    options = native(causal, scale, left, right, key_lengths, mask, blocks, dropout_p, seed)
    return torch_kernels.backward(q, k, v, o, lse, d_o, options, device)


@attention.register_fake
def _(q, k, v, *options):
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), q.new_empty(q.shape[:3], dtype=torch.float32)


@attention_backward.register_fake
def _(q, k, v, *rest):
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))


def setup_context(ctx, inputs, output):
    q, k, v, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output)


def differentiate(ctx, d_o, _):
    gradients = attention_backward(*ctx.saved_tensors, d_o, *ctx.options)
    return *gradients, *(None for _ in ctx.options)


attention.register_autograd(differentiate, setup_context=setup_context)


def flat(options):
    """The options as the operators take them. A missing seed is drawn in the graph."""
    left, right = options["window"] or (None, None)
    probability, seed = options["dropout"] or (0.0, None)
    if seed is not None:
        seed = torch.tensor(signed(seed))
    elif probability:
        seed = torch.randint(0, (1 << 63) - 1, ())
    scale, key_lengths, mask, blocks = (options[name] for name in ("scale", "key_lengths", "mask", "blocks"))
    return options["causal"], scale, left, right, key_lengths, mask, blocks, probability, seed


def native(causal, scale, left, right, key_lengths, mask, blocks, dropout_p, seed):
    """The options of an operator as the compiled part takes them."""
    return torch_kernels.native(
        {
            "causal": causal,
            "scale": scale,
            "window": (left, right),
            "key_lengths": key_lengths,
            "mask": mask,
            "blocks": blocks,
            "dropout": None if seed is None else (dropout_p, int(seed) % (1 << 64)),
        }
    )


def signed(seed):
    """The 64 bits of a seed as PyTorch's integers have them."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed

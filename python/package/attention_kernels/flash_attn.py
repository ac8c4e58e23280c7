"""`flash_attn_func` with the names, layout and meaning of FlashAttention 2."""

from .attention import attention, count
from .library import library_of


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """FlashAttention's function: on the CPU in float32, on PyTorch's CUDA tensors in float32, float16 or bfloat16.

    `q` is `[B, nq, H, D]`; `k` and `v` are `[B, nk, H_kv, D]`; the result is `[B, nq, H, D]`, contiguous. A
    negative side of `window_size` has no bound. With `return_attn_probs=True` the result is `(o, lse, None)`.

    Raises NotImplementedError for `softcap`, `alibi_slopes` and `deterministic`, and for `return_attn_probs` with dropout.
    """
    refuse(softcap=softcap, alibi_slopes=alibi_slopes)
    if deterministic:
        raise NotImplementedError("`deterministic` is not supported: threads add to the gradient of `q` in any order")
    if return_attn_probs and dropout_p > 0:
        raise NotImplementedError("`return_attn_probs` is not supported with dropout")
    library = library_of(q, k=k, v=v)
    for argument, x in (("q", q), ("k", k), ("v", v)):
        check_axes(argument, x)
    o, lse = attention(
        *map(library.swap_heads, (q, k, v)),
        causal=causal,
        scale=softmax_scale,
        window=sides(window_size),
        dropout_p=dropout_p,
        return_lse=True,
    )
    o = library.contiguous(library.swap_heads(o))
    return (o, lse, None) if return_attn_probs else o


def refuse(softcap=0.0, **others):
    """Raises the error of an option that no kernel has."""
    if softcap != 0.0:
        raise NotImplementedError("`softcap` is not supported")
    for argument, value in others.items():
        if value is not None:
            raise NotImplementedError(f"`{argument}` is not supported")


def check_axes(argument, x):
    axes = len(getattr(x, "shape", ()))
    if axes != 4:
        raise ValueError(f"`{argument}` has {axes} axes, expected 4")


def sides(window_size):
    """FlashAttention's window as `attention` takes it."""
    return tuple(None if side < 0 else count("window_size", side) for side in window_size)

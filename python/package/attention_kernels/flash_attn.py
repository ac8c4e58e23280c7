"""`flash_attn_func` with the names, layout and meaning of FlashAttention 2."""

from .attention import attention
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
    """FlashAttention's function on the CPU, in float32.

    `q` is `[B, nq, H, D]`; `k` and `v` are `[B, nk, H_kv, D]`; the result is `[B, nq, H, D]`, contiguous. A
    negative side of `window_size` has no bound. With `return_attn_probs=True` the result is `(o, lse, None)`.

    Raises NotImplementedError for `softcap`, `alibi_slopes` and `deterministic`, and for `return_attn_probs` with dropout.
    """
    if softcap != 0.0:
        raise NotImplementedError("`softcap` is not supported")
    if alibi_slopes is not None:
        raise NotImplementedError("`alibi_slopes` is not supported")
    if deterministic:
        raise NotImplementedError("`deterministic` is not supported: threads add to the gradient of `q` in any order")
    if return_attn_probs and dropout_p > 0:
        raise NotImplementedError("`return_attn_probs` is not supported with dropout")
    library = library_of(q, k, v)
    o, lse = attention(
        *(library.swap_heads(argument, x) for argument, x in zip("qkv", (q, k, v))),
        causal=causal,
        scale=softmax_scale,
        window=tuple(None if side < 0 else side for side in window_size),
        dropout_p=dropout_p,
        return_lse=True,
    )
    o = library.contiguous(library.swap_heads("o", o))
    return (o, lse, None) if return_attn_probs else o

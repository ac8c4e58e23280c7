"""Attention in float64, by its definition, and random problems."""

import numpy


def attention(q, k, v, *, causal=False, scale=None, window=None, key_lengths=None, mask=None, blocks=None):
    """`o` and `lse` in float64."""
    q, k, v = (numpy.asarray(x, numpy.float64) for x in (q, k, v))
    (batch, heads, nq, d), (_, kv_heads, nk, _) = q.shape, k.shape
    k, v = (x.repeat(heads // max(kv_heads, 1), axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / numpy.sqrt(d) if scale is None else scale)
    if mask is not None:
        scores = scores + mask
    scores = numpy.where(seen(batch, nq, nk, causal, window, key_lengths, blocks), scores, -numpy.inf)
    largest = scores.max(-1, keepdims=True, initial=-numpy.inf)
    weights = numpy.exp(scores - numpy.where(numpy.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    o = weights @ v / numpy.where(total == 0, 1, total)
    with numpy.errstate(divide="ignore"):
        lse = numpy.log(total) + largest
    return o, lse[..., 0]


def seen(batch, nq, nk, causal=False, window=None, key_lengths=None, blocks=None):
    """The scores that no option but `mask` hides: bool, and broadcasts to `[B, H, nq, nk]`."""
    diagonals = numpy.arange(nk) - numpy.arange(nq)[:, None] - (nk - nq)
    shown = numpy.ones((batch, 1, nq, nk), bool)
    if causal:
        shown &= diagonals <= 0
    if window is not None:
        left, right = (nk + nq if side is None else side for side in window)
        shown &= (-left <= diagonals) & (diagonals <= right)
    if key_lengths is not None:
        shown &= numpy.arange(nk) < numpy.asarray(key_lengths)[:, None, None, None]
    if blocks is not None:
        shown = shown & numpy.asarray(blocks).repeat(64, axis=2).repeat(64, axis=3)[:, :, :nq, :nk]
    return shown


def problem(batch, heads, kv_heads, nq, nk, d, seed=0):
    """Random `q`, `k` and `v`, float32."""
    random = numpy.random.default_rng(seed)
    shapes = [(batch, heads, nq, d), (batch, kv_heads, nk, d), (batch, kv_heads, nk, d)]
    return [random.standard_normal(shape, numpy.float32) for shape in shapes]


SHAPES = [
    # B, H, H_kv, nq, nk, D
    (1, 1, 1, 1, 1, 1),
    (1, 2, 2, 64, 64, 64),
    (2, 3, 3, 65, 65, 40),
    (1, 4, 2, 127, 129, 64),
    (2, 6, 1, 100, 33, 32),
    (1, 2, 2, 33, 100, 72),
    (1, 1, 1, 1, 300, 128),
    (1, 1, 1, 300, 1, 16),
    (1, 2, 1, 257, 257, 80),
]

EMPTY = [
    (0, 2, 2, 5, 5, 8),
    (2, 0, 0, 5, 5, 8),
    (2, 2, 2, 0, 5, 8),
    (2, 2, 2, 5, 0, 8),
]

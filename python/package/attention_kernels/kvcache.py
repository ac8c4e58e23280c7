"""`flash_attn_with_kvcache` with the names, layout and meaning of FlashAttention 2."""

from . import _native
from .attention import attention, count
from .flash_attn import check_axes, refuse, sides
from .library import library_of


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    block_table=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
    *,
    device="cpu",
):
    """FlashAttention's function for decoding: appends new keys and values to a cache in place, then attends to it.

    `q` is `[B, nq, H, D]`; the caches are `[B_cache, max_seq, H_kv, D]`, or with `block_table` `[pages, page_size, H_kv, D]`;
    the new `k` and `v` are `[B, n, H_kv, D]`. The result is `[B, nq, H, D]`, contiguous; with `return_softmax_lse=True` it is
    `(o, lse)`, where `lse` is `[B, H, nq]`, float32. The queries are the last tokens of their sequence.

    - `cache_seqlens`: tokens of each sequence before the call, an integer or B of them; all of the cache if None.
    - `cache_batch_idx`: the row of the cache of each sequence, B integers; row b if None.
    - `block_table`: `[B, columns]`: token j of sequence b is row j % page_size of page `block_table[b][j // page_size]`.
    - `rotary_cos`, `rotary_sin`: `[positions, R / 2]`: the first R elements of `k` and `q` are rotated at their positions. With
      neither `causal` nor a window all queries have the position of the first new token.
    - `num_splits`: parts of a sequence on the simulated device; 0 lets the library choose. The CPU needs none.

    `device="cpu"` computes in float32 by `attention`. `device="sim"` runs stage 5's kernels on the simulated GPU, in
    float32, float16 or bfloat16, for up to 16 queries: more than one must be `causal`. No gradient is computed.

    Raises NotImplementedError for `softcap`, `alibi_slopes` and `cache_leftpad`, and for what the simulated device lacks. A call
    that is refused leaves the caches as they were.
    """
    refuse(softcap=softcap, alibi_slopes=alibi_slopes, cache_leftpad=cache_leftpad)
    if device not in ("cpu", "sim"):
        raise ValueError(f'`device` is {device!r}, expected "cpu" or "sim"')
    library = library_of(q, k_cache=k_cache, v_cache=v_cache, k=k, v=v)
    _check(library, q, k_cache, v_cache, k, v)
    q, k_cache, v_cache = (library.detached(x) for x in (q, k_cache, v_cache))
    if block_table is not None and cache_batch_idx is not None:
        raise NotImplementedError("`cache_batch_idx` is not supported with `block_table`")
    cache = Cache(k_cache, v_cache, len(q), block_table, cache_batch_idx)
    lengths = _lengths(cache_seqlens, len(q), cache.max_seq)
    num_splits = count("num_splits", num_splits)
    if device == "cpu":
        _check_cpu(library, q)
    else:
        _check_sim(q, cache, causal, window_size, num_splits)
    if rotary_cos is not None or rotary_sin is not None:
        if k is None or rotary_cos is None or rotary_sin is None:
            raise ValueError("`rotary_cos` and `rotary_sin` need each other and `k`")
        rotate = Rotary(library, rotary_cos, rotary_sin, rotary_interleaved)
        steps = causal or tuple(window_size) != (-1, -1)
        q = rotate("q", q, [[n + (i if steps else 0) for i in range(q.shape[1])] for n in lengths])
        k = rotate("k", k, [[n + i for i in range(k.shape[1])] for n in lengths])

    def attend(q, cache, lengths):
        if device == "cpu":
            return _on_cpu(library, q, cache, lengths, softmax_scale, causal, window_size)
        return _on_sim(library, q, cache, lengths, softmax_scale, window_size, num_splits)

    if k is not None:
        k, v = library.detached(k), library.detached(v)
        cache.check_append(library, k.shape[1], lengths)
        # The first sequence without its tokens: raises what `attend` refuses before anything is written.
        attend(q[:1], cache.without_tokens(len(q[:1])), [0] * len(q[:1]))
        cache.append(k, v, lengths)
        lengths = [length + k.shape[1] for length in lengths]
    o, lse = attend(q, cache, lengths)
    o = library.contiguous(library.swap_heads(o))
    return (o, lse) if return_softmax_lse else o


class Cache:
    """Keys and values of sequences, contiguous or in pages."""

    def __init__(self, k, v, batch, block_table, cache_batch_idx):
        self.k, self.v = k, v
        self.table = self.rows = None
        if block_table is not None:
            self.table = [[int(page) for page in pages] for pages in block_table]
            if len(self.table) != batch or len({len(pages) for pages in self.table}) > 1:
                raise ValueError(f"`block_table` has {len(self.table)} rows, expected {batch} of one length")
            for page in (page for pages in self.table for page in pages):
                if not -(1 << 31) <= page < 1 << 31:
                    raise ValueError(f"`block_table` has {page}, expected 32 bits")
            self.page_size = k.shape[1]
            self.max_seq = self.page_size * (len(self.table[0]) if self.table else 0)
            return
        self.max_seq = k.shape[1]
        if cache_batch_idx is None:
            if len(k) < batch:
                raise ValueError(f"`k_cache` has {len(k)} rows, expected {batch}, as `q`")
            self.rows = list(range(batch))
            return
        self.rows = [count("cache_batch_idx", row) for row in cache_batch_idx]
        if len(self.rows) != batch:
            raise ValueError(f"`cache_batch_idx` has {len(self.rows)} rows, expected {batch}")
        if max(self.rows, default=-1) >= len(k):
            raise ValueError(f"`cache_batch_idx` has {max(self.rows)}, expected less than {len(k)}")

    def without_tokens(self, batch):
        """A cache of the same kind for `batch` sequences without tokens, at most 1."""
        if self.table is None:
            return Cache(self.k[:batch, :1], self.v[:batch, :1], batch, None, None)
        return Cache(self.k[:batch], self.v[:batch], batch, [[0]] * batch, None)

    def check_append(self, library, new, lengths):
        """Checks that `new` tokens can be written behind the lengths, which do not count them yet."""
        for b, length in enumerate(lengths):
            if length + new > self.max_seq:
                raise ValueError(f"`k` has {new} tokens, and sequence {b} has {length} of {self.max_seq}: no room")
            self.check_pages(b, length + new)
        for argument, x in (("k_cache", self.k), ("v_cache", self.v)):
            library.check_writable(argument, x)
            if any(n > 1 and stride == 0 for n, stride in zip(x.shape, library.strides(x))):
                raise ValueError(f"`{argument}` has a stride of 0: several of its elements have one place")

    def append(self, k, v, lengths):
        """Writes new tokens behind the lengths, as `check_append` has allowed."""
        for b, length in enumerate(lengths):
            where = self.places(b, length, length + k.shape[1])
            self.k[where] = k[b]
            self.v[where] = v[b]

    def places(self, b, first, last):
        """The index of these tokens of a sequence, `[tokens, H_kv, D]`, in both caches."""
        if self.table is None:
            return self.rows[b], slice(first, last)
        tokens = range(first, last)
        return [self.table[b][j // self.page_size] for j in tokens], [j % self.page_size for j in tokens]

    def check_pages(self, b, length):
        """Checks the pages that the tokens of a sequence lie in."""
        if self.table is None:
            return
        for page in self.table[b][: -(-length // self.page_size)]:
            if not 0 <= page < len(self.k):
                raise ValueError(f"`block_table` has {page} in row {b}, expected a page below {len(self.k)}")


class Rotary:
    """Rotary embedding: pairs of elements are rotated by the angles of their position."""

    def __init__(self, library, cos, sin, interleaved):
        self.library, self.interleaved = library, interleaved
        if tuple(cos.shape) != tuple(sin.shape) or len(cos.shape) != 2:
            raise ValueError(f"`rotary_sin` has shape {tuple(sin.shape)}, expected two axes, as `rotary_cos`: {tuple(cos.shape)}")
        self.cos, self.sin = library.float32(cos), library.float32(sin)

    def __call__(self, argument, x, positions):
        """`x`, `[B, n, H, D]`, in its type, computed in float32; `positions` is `[B][n]`."""
        most, half = self.cos.shape
        if 2 * half > x.shape[-1]:
            raise ValueError(f"`rotary_cos` has {half} columns, expected at most half of {x.shape[-1]}")
        if any(position >= most for row in positions for position in row):
            raise ValueError(f"`rotary_cos` has {most} positions, too few for `{argument}`")
        first, second = slice(0, half), slice(half, 2 * half)
        if self.interleaved:
            first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        rotated = self.library.copied(self.library.float32(x))
        for b, row in enumerate(positions):
            cos, sin = self.cos[row][:, None], self.sin[row][:, None]  # [n, 1, half]
            x1, x2 = self.library.copied(rotated[b][..., first]), rotated[b][..., second]
            rotated[b][..., first] = x1 * cos - x2 * sin
            rotated[b][..., second] = x1 * sin + x2 * cos
        return self.library.like(rotated, x)


def _check(library, q, k_cache, v_cache, k, v):
    tensors = {"q": q, "k_cache": k_cache, "v_cache": v_cache}
    if (k is None) != (v is None):
        raise ValueError("`k` and `v` need each other")
    if k is not None:
        tensors |= {"k": k, "v": v}
    for argument, x in tensors.items():
        check_axes(argument, x)
        if library.device_of(x) != "cpu":
            raise NotImplementedError(f"`{argument}` is on a CUDA device, which is not supported with a cache")
        if x.dtype != q.dtype:
            raise TypeError(f"`{argument}` is {x.dtype}, expected {q.dtype}, as `q`")
    if k_cache.shape != v_cache.shape:
        raise ValueError(f"`v_cache` has shape {tuple(v_cache.shape)}, expected that of `k_cache`: {tuple(k_cache.shape)}")
    if k is not None and k.shape != v.shape:
        raise ValueError(f"`v` has shape {tuple(v.shape)}, expected that of `k`: {tuple(k.shape)}")
    if k is not None and (k.shape[0] != q.shape[0] or k.shape[2:] != k_cache.shape[2:]):
        expected = (q.shape[0], k.shape[1], *k_cache.shape[2:])
        raise ValueError(f"`k` has shape {tuple(k.shape)}, expected {expected} to fit `q` and `k_cache`")
    if q.shape[3] != k_cache.shape[3]:
        raise ValueError(f"`k_cache` has rows of {k_cache.shape[3]}, expected {q.shape[3]}, as `q`")


def _lengths(cache_seqlens, batch, max_seq):
    if cache_seqlens is None:
        return [max_seq] * batch
    if hasattr(cache_seqlens, "__len__") and getattr(cache_seqlens, "ndim", 1) > 0:
        lengths = [count("cache_seqlens", n) for n in cache_seqlens]
    else:
        lengths = [count("cache_seqlens", cache_seqlens)] * batch
    if len(lengths) != batch:
        raise ValueError(f"`cache_seqlens` has {len(lengths)} lengths, expected {batch}")
    if max(lengths, default=0) > max_seq:
        raise ValueError(f"`cache_seqlens` has {max(lengths)}, expected at most {max_seq}")
    return lengths


def _on_cpu(library, q, cache, lengths, scale, causal, window_size):
    """`o` `[B, H, nq, D]` and `lse`: a call for each sequence. Its keys are read where they lie, unless they are in pages."""
    options = {"scale": scale, "causal": causal, "window": sides(window_size), "return_lse": True}
    results = []
    for b, length in enumerate(lengths):
        cache.check_pages(b, length)
        where = cache.places(b, 0, length)
        tensors = q[b], cache.k[where], cache.v[where]
        results.append(attention(*(library.swap_heads(x[None]) for x in tensors), **options))
    if not results:
        none = library.swap_heads(q)
        return none, library.float32(none[..., 0])
    return tuple(map(library.concatenate, zip(*results)))


def _check_cpu(library, q):
    if library.float32(q).dtype != q.dtype:
        raise TypeError(f"`q` is {q.dtype}, expected float32")


def _check_sim(q, cache, causal, window_size, num_splits):
    """Raises the error of what stage 5 lacks."""
    nq, where = q.shape[1], "on the simulated device"
    if nq > _native.MAX_QUERIES:
        raise NotImplementedError(f"`q` has {nq} queries: more than {_native.MAX_QUERIES} are not supported {where}")
    if nq > 1 and not causal and window_size[1] != 0:
        raise NotImplementedError(f"`causal` False is not supported with more than one query {where}")
    if cache.table is not None and not _native.MIN_PAGE <= cache.page_size <= _native.MAX_PAGE:
        sizes = f"{_native.MIN_PAGE} to {_native.MAX_PAGE}"
        raise NotImplementedError(f"`block_table` has pages of {cache.page_size} tokens, expected {sizes} {where}")
    if num_splits > _native.MAX_SPLITS:
        raise ValueError(f"`num_splits` is {num_splits}, expected at most {_native.MAX_SPLITS}")


def _on_sim(library, q, cache, lengths, scale, window_size, num_splits):
    k, v, table = cache.k, cache.v, None
    if cache.table is None:
        k, v = k[cache.rows], v[cache.rows]
    else:
        columns = cache.max_seq // cache.page_size
        table = [page for pages in cache.table for page in pages], columns
    tensors = (library.swap_heads(x) for x in (library.float32(q), k, v))
    o, lse = library.decode(*tensors, lengths, table, scale, sides(window_size)[0], num_splits)
    return library.like(o, q), lse

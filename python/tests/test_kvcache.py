"""`flash_attn_with_kvcache` against the definition: each sequence alone, in float64, with rotary embedding by complex numbers."""

import numpy
import pytest
import reference
from attention_kernels import flash_attn_with_kvcache
from numpy.testing import assert_allclose

DEVICES = ["cpu", "sim"]


@pytest.fixture(params=["numpy", "torch"])
def wrap(request):
    """Makes an array of a library, which shares its memory with NumPy's."""
    return numpy.asarray if request.param == "numpy" else pytest.importorskip("torch").from_numpy


def random(*shape, seed=0, dtype=numpy.float32):
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def one(q, k, v, window_size=(-1, -1), softmax_scale=None, **options):
    """`o` `[nq, H, D]` and `lse` `[H, nq]` of a sequence: `q` `[nq, H, D]`, `k` and `v` `[n, H_kv, D]`."""
    window = tuple(None if side < 0 else side for side in window_size)
    tensors = (x.swapaxes(0, 1)[None] for x in (q, k, v))
    o, lse = reference.attention(*tensors, window=window, scale=softmax_scale, **options)
    return o[0].swapaxes(0, 1), lse[0]


def check(results, expected, atol=1e-5):
    o, lse = (numpy.asarray(x) for x in results)
    for b, (expected_o, expected_lse) in enumerate(expected):
        assert_allclose(o[b], expected_o, rtol=0, atol=atol)
        assert_allclose(lse[b], expected_lse, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "nq, options",
    [
        (1, {}),
        (1, {"window_size": (9, 0), "softmax_scale": 0.2}),
        (5, {"causal": True}),
        (5, {"causal": True, "window_size": (4, -1)}),
        (16, {"window_size": (-1, 0)}),
        (1, {"num_splits": 3}),
    ],
    ids=str,
)
def test_options(wrap, device, nq, options):
    q, k, v = random(3, nq, 4, 24), random(4, 90, 2, 24, seed=1), random(4, 90, 2, 24, seed=2)
    lengths = numpy.array([90, 37, 3], numpy.int32)
    seen = {name: value for name, value in options.items() if name != "num_splits"}
    results = flash_attn_with_kvcache(
        wrap(q), wrap(k), wrap(v), cache_seqlens=wrap(lengths), return_softmax_lse=True, device=device, **options
    )
    check(results, [one(q[b], k[b, :n], v[b, :n], **seen) for b, n in enumerate(lengths)])


@pytest.mark.parametrize("device", DEVICES)
def test_new_tokens_go_into_the_cache(wrap, device):
    q, k_cache, v_cache = random(2, 3, 4, 16), random(5, 20, 2, 16, seed=1), random(5, 20, 2, 16, seed=2)
    k, v = random(2, 3, 2, 16, seed=3), random(2, 3, 2, 16, seed=4)
    before = k_cache.copy(), v_cache.copy()
    results = flash_attn_with_kvcache(
        *map(wrap, (q, k_cache, v_cache, k, v)),
        cache_seqlens=[17, 0],
        cache_batch_idx=[4, 1],
        causal=True,
        return_softmax_lse=True,
        device=device,
    )
    for cache, old, new in ((k_cache, before[0], k), (v_cache, before[1], v)):
        old[4, 17:20], old[1, :3] = new
        assert (cache == old).all()
    check(results, [one(q[b], k_cache[row, :n], v_cache[row, :n], causal=True) for b, row, n in ((0, 4, 20), (1, 1, 3))])


@pytest.mark.parametrize("device", DEVICES)
def test_pages(wrap, device):
    size, table = 16, numpy.array([[6, 1, 3], [0, 5, -1]], numpy.int32)
    q, k_pages, v_pages = random(2, 2, 4, 16), random(7, size, 2, 16, seed=1), random(7, size, 2, 16, seed=2)
    k, v = random(2, 2, 2, 16, seed=3), random(2, 2, 2, 16, seed=4)
    contiguous = [numpy.concatenate([pages[table[b]].reshape(-1, 2, 16)[None] for b in range(2)]) for pages in (k_pages, v_pages)]
    lengths = [31, 15]  # the new tokens begin in one page and end in the next
    options = {"cache_seqlens": lengths, "causal": True, "return_softmax_lse": True, "device": device}
    paged = flash_attn_with_kvcache(*map(wrap, (q, k_pages, v_pages, k, v)), block_table=wrap(table), **options)
    expected = flash_attn_with_kvcache(*map(wrap, (q, *contiguous, k, v)), **options)
    for x, y in zip(paged, expected):
        assert_allclose(numpy.asarray(x), numpy.asarray(y), rtol=0, atol=1e-6)
    assert (k_pages[1, 15] == k[0, 0]).all() and (k_pages[3, 0] == k[0, 1]).all()
    assert (v_pages[0, 15] == v[1, 0]).all() and (v_pages[5, 0] == v[1, 1]).all()


def rotated(x, angles, interleaved):
    """Pairs of elements as complex numbers, times e^(i angle): `x` `[n, H, D]`, `angles` `[n, R / 2]`."""
    n, heads, d = x.shape
    half = angles.shape[1]
    pairs = x[..., : 2 * half].astype(numpy.float64)
    pairs = pairs.reshape(n, heads, half, 2) if interleaved else pairs.reshape(n, heads, 2, half).swapaxes(-1, -2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * numpy.exp(1j * angles)[:, None]
    turned = numpy.stack([turned.real, turned.imag], -1)
    turned = turned if interleaved else turned.swapaxes(-1, -2)
    return numpy.concatenate([turned.reshape(n, heads, 2 * half), x[..., 2 * half :]], -1)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_rotary(wrap, interleaved, causal):
    angles = random(12, 6).astype(numpy.float64)
    q, k_cache, v_cache = random(2, 3, 4, 16), random(2, 12, 2, 16, seed=1), random(2, 12, 2, 16, seed=2)
    k, v = random(2, 3, 2, 16, seed=3), random(2, 3, 2, 16, seed=4)
    tables = [wrap(table.astype(numpy.float32)) for table in (numpy.cos(angles), numpy.sin(angles))]
    lengths = [9, 4]
    results = flash_attn_with_kvcache(
        *map(wrap, (q, k_cache, v_cache, k, v)),
        *tables,
        cache_seqlens=lengths,
        causal=causal,
        rotary_interleaved=interleaved,
        return_softmax_lse=True,
    )
    expected = []
    for b, n in enumerate(lengths):
        at = angles[n : n + 3]
        assert_allclose(k_cache[b, n : n + 3], rotated(k[b], at, interleaved), rtol=0, atol=1e-5)
        turned = rotated(q[b], at if causal else at[:1].repeat(3, axis=0), interleaved)
        expected.append(one(turned, k_cache[b, : n + 3], v_cache[b, : n + 3], causal=causal))
    check(results, expected)


def test_half_precision_on_the_simulated_device():
    q, k, v = random(2, 1, 4, 64), random(2, 50, 1, 64, seed=1), random(2, 50, 1, 64, seed=2)
    halves = [x.astype(numpy.float16) for x in (q, k, v)]
    o, lse = flash_attn_with_kvcache(*halves, cache_seqlens=[50, 20], return_softmax_lse=True, device="sim")
    assert o.dtype == numpy.float16 and lse.dtype == numpy.float32
    q, k, v = halves
    check((o, lse), [one(q[b], k[b, :n], v[b, :n]) for b, n in ((0, 50), (1, 20))], atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_no_sequences_and_no_tokens(device):
    x = random(0, 1, 2, 8)
    assert flash_attn_with_kvcache(x, random(0, 5, 2, 8), random(0, 5, 2, 8), device=device).shape == (0, 1, 2, 8)
    q, cache = random(1, 1, 2, 8), random(1, 5, 2, 8)
    o, lse = flash_attn_with_kvcache(q, cache, cache, cache_seqlens=0, return_softmax_lse=True, device=device)
    assert (o == 0).all() and (lse == -numpy.inf).all()


Q, CACHE, NEW = random(2, 3, 4, 16), random(3, 20, 2, 16), random(2, 3, 2, 16)
PAGES_OF_8 = {"block_table": [[0], [1]], "k_cache": CACHE[:, :8], "v_cache": CACHE[:, :8]}
HALVES = {"q": Q, "k_cache": CACHE, "v_cache": CACHE, "k": NEW, "v": NEW}


@pytest.mark.parametrize(
    "error, argument, options",
    [
        (NotImplementedError, "softcap", {"softcap": 30.0}),
        (NotImplementedError, "alibi_slopes", {"alibi_slopes": numpy.ones(4, numpy.float32)}),
        (NotImplementedError, "cache_leftpad", {"cache_leftpad": [1, 1]}),
        (NotImplementedError, "cache_batch_idx", {"block_table": [[0], [1]], "cache_batch_idx": [0, 1]}),
        (NotImplementedError, "causal", {"device": "sim"}),
        (NotImplementedError, "q", {"device": "sim", "causal": True, "q": random(2, 17, 4, 16)}),
        (NotImplementedError, "block_table", {**PAGES_OF_8, "device": "sim", "causal": True}),
        (ValueError, "num_splits", {"device": "sim", "causal": True, "num_splits": 1000}),
        (ValueError, "device", {"device": "cuda"}),
        (TypeError, "q", {"q": Q.astype(float), "k_cache": CACHE.astype(float), "v_cache": CACHE.astype(float)}),
        (TypeError, "q", {name: x.astype(numpy.float16) for name, x in HALVES.items()} | {"cache_seqlens": 0}),
        (TypeError, "v_cache", {"v_cache": CACHE.astype(numpy.float16)}),
        (TypeError, "k", {"k": NEW.astype(numpy.float16), "v": NEW, "cache_seqlens": 0}),
        (ValueError, "k", {"k": NEW, "cache_seqlens": 0}),
        (ValueError, "k", {"k": NEW[:, :, :1], "v": NEW[:, :, :1], "cache_seqlens": 0}),
        (ValueError, "v", {"k": NEW, "v": NEW[:, :2], "cache_seqlens": 0}),
        (ValueError, "k", {"k": NEW, "v": NEW, "cache_seqlens": [0, 18]}),
        (ValueError, "q", {"q": Q[0]}),
        (ValueError, "v_cache", {"v_cache": CACHE[:, :10]}),
        (ValueError, "k_cache", {"k_cache": CACHE[:1], "v_cache": CACHE[:1]}),
        (ValueError, "k_cache", {"q": Q[..., :8]}),
        (ValueError, "cache_seqlens", {"cache_seqlens": 21}),
        (ValueError, "cache_seqlens", {"cache_seqlens": [1, 2, 3]}),
        (TypeError, "cache_seqlens", {"cache_seqlens": [1.5, 2]}),
        (ValueError, "cache_batch_idx", {"cache_batch_idx": [0, 3]}),
        (ValueError, "cache_batch_idx", {"cache_batch_idx": [0]}),
        (ValueError, "block_table", {"block_table": [[0, 3], [1, 2]]}),
        (ValueError, "block_table", {"block_table": [[0]]}),
        (ValueError, "rotary_cos", {"rotary_cos": random(9, 4), "rotary_sin": random(9, 4)}),
        (ValueError, "rotary_cos", {"rotary_cos": random(9, 4), "rotary_sin": random(9, 4), "k": NEW, "v": NEW, "cache_seqlens": 9}),
        (ValueError, "rotary_sin", {"rotary_cos": random(9, 4), "rotary_sin": random(9, 3), "k": NEW, "v": NEW, "cache_seqlens": 0}),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else None,
)
def test_refusals(error, argument, options):
    caches = {name: options.get(name, CACHE).copy() for name in ("k_cache", "v_cache")}
    before = {name: x.copy() for name, x in caches.items()}
    with pytest.raises(error, match=f"`{argument}`"):
        flash_attn_with_kvcache(**{"q": Q, **options, **caches})
    for name, x in caches.items():
        assert (x == before[name]).all()


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def one_place(x):
    """An array of this shape whose sequences have the same memory. NumPy lets it be written."""
    return numpy.lib.stride_tricks.as_strided(x[0].copy(), x.shape, (0, *x.strides[1:]))


def wide(x):
    return random(*x.shape[:3], 300, seed=x.size)


PAGES = {"k_cache": random(4, 16, 2, 16, seed=1), "v_cache": random(4, 16, 2, 16, seed=2)}
MUCH = numpy.broadcast_to(Q[:, :, :1], (2, 3, 1 << 54, 16))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "error, argument, options",
    [
        (ValueError, "`scale`", {"softmax_scale": float("nan")}),
        (TypeError, "'scale'", {"softmax_scale": "large"}),
        (TypeError, "`window_size`", {"window_size": (1.5, 0)}),
        (ValueError, "heads", {"q": Q[:, :, :3]}),
        (ValueError, "256", {name: wide(x) for name, x in HALVES.items()}),
        (TypeError, "float64", {name: x.astype(float) for name, x in HALVES.items()}),
        ((TypeError, ValueError), "float32|`k_cache`", {name: x.astype(">f4") for name, x in HALVES.items()}),
        (MemoryError, "`q`", {"q": MUCH}),
        (ValueError, "`v_cache` is read-only", {"v_cache": read_only}),
        (ValueError, "`v_cache` has a stride of 0", {"v_cache": one_place}),
        (ValueError, "`block_table` has 4 in row 1", {**PAGES, "block_table": [[0, 2], [4, 3]], "cache_seqlens": 16}),
        (ValueError, "`block_table` has 4 in row 1", {**PAGES, "block_table": [[0, 2], [1, 4]], "cache_seqlens": 15}),
        (ValueError, "`block_table` has 1099511627776", {**PAGES, "block_table": [[0, 2], [1, 1 << 40]]}),
        (ValueError, "heads", {**PAGES, "block_table": [[0, 2], [1, 3]], "q": Q[:, :, :3]}),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else None,
)
def test_a_refused_call_leaves_the_caches_alone(device, error, argument, options):
    options = {**HALVES, "cache_seqlens": 0, "causal": True, **options}
    for name in ("k_cache", "v_cache"):
        options[name] = options[name](CACHE) if callable(options[name]) else options[name].copy()
    before = {name: options[name].copy() for name in ("k_cache", "v_cache")}
    with pytest.raises(error, match=argument):
        flash_attn_with_kvcache(**options, device=device)
    for name, x in before.items():
        assert (options[name] == x).all()


@pytest.mark.parametrize("device", DEVICES)
def test_caches_of_pytorch_that_cannot_be_written(device):
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(x.copy()) for name, x in HALVES.items()}
    with torch.inference_mode():
        of_inference = torch.zeros(CACHE.shape)
    for match, cache in [
        ("`v_cache` was made in inference mode", of_inference),
        ("`v_cache` has a stride of 0", tensors["v_cache"][:1].expand(CACHE.shape)),
    ]:
        with pytest.raises(ValueError, match=match):
            flash_attn_with_kvcache(**{**tensors, "v_cache": cache}, cache_seqlens=0, causal=True, device=device)
        assert (tensors["k_cache"].numpy() == CACHE).all()

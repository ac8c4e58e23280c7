"""Results on arrays of NumPy against the definition, with every option."""

import numpy
import pytest
import reference
from attention_kernels import attention, flash_attn_func
from numpy.testing import assert_allclose


def check(q, k, v, **options):
    o, lse = attention(q, k, v, return_lse=True, **options)
    expected_o, expected_lse = reference.attention(q, k, v, **options)
    assert type(o) is numpy.ndarray and o.dtype == lse.dtype == numpy.float32
    assert o.flags.c_contiguous and o.flags.writeable
    assert_allclose(o, expected_o, rtol=1e-5, atol=2e-6)
    assert_allclose(lse, expected_lse, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", reference.SHAPES + reference.EMPTY, ids=str)
def test_shapes(shape, causal):
    check(*reference.problem(*shape), causal=causal)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.3},
        {"scale": 0.0},
        {"scale": -0.2},
        {"window": (10, 0)},
        {"window": (None, 5)},
        {"window": (3, None), "causal": True},
        {"key_lengths": [150, 0]},
        {"key_lengths": numpy.array([1, 77])},
        {"blocks": numpy.array([[[[1, 0, 1], [0, 1, 0]]]], bool)},
        {"blocks": numpy.zeros((2, 4, 2, 3), bool)},
    ],
    ids=str,
)
def test_options(options):
    check(*reference.problem(2, 4, 2, 100, 150, 32), **options)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 4), (2, 4)])
def test_mask(shape):
    random = numpy.random.default_rng(1)
    mask = random.standard_normal((*shape, 100, 150), numpy.float32)
    mask[..., 7, :] = -numpy.inf
    mask[..., 20:30] = -numpy.inf
    check(*reference.problem(2, 4, 2, 100, 150, 32), mask=mask)


def test_any_layout():
    q, k, v = reference.problem(2, 4, 2, 100, 150, 32)
    expected = attention(q, k, v)
    strided = numpy.zeros((2, 8, 300, 96), numpy.float32)
    strided[:, ::4, ::2, ::3] = k
    layouts = [
        k.swapaxes(1, 2).copy().swapaxes(1, 2),
        numpy.asfortranarray(k),
        k[::-1, ::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1, ::-1],
        strided[:, ::4, ::2, ::3],
    ]
    for layout in layouts:
        assert_allclose(attention(q, layout, v), expected, rtol=0, atol=1e-6)


def test_stride_0():
    q, k, v = reference.problem(2, 4, 4, 10, 20, 16)
    one = numpy.broadcast_to(k[:1, :1], k.shape)
    assert one.strides[:2] == (0, 0)
    check(q, one, v)
    check(q, numpy.broadcast_to(numpy.float32(0.5), k.shape), v)


def test_read_only_arrays_are_read():
    q, k, v = reference.problem(1, 1, 1, 10, 10, 8)
    q.flags.writeable = False
    check(q, k, v)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_nan_stays_in_its_row(device):
    q, k, v = reference.problem(1, 1, 1, 10, 10, 8)
    q[0, 0, 3, 2] = numpy.nan
    o = attention(q, k, v, device=device)
    assert (numpy.isnan(o).all(-1) == (numpy.arange(10) == 3)).all()


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_nan_in_padding_is_never_read(device):
    q, k, v = reference.problem(2, 2, 2, 10, 30, 8)
    expected = attention(q, k, v, key_lengths=[20, 7], device=device)
    for x in (k, v):
        x[0, :, 20:] = x[1, :, 7:] = numpy.nan
    assert (attention(q, k, v, key_lengths=[20, 7], device=device) == expected).all()


def test_dropout():
    q, k, v = reference.problem(1, 2, 2, 40, 50, 16)
    runs = [attention(q, k, v, dropout_p=0.5, seed=seed) for seed in (1, 1, 2)]
    assert (runs[0] == runs[1]).all() and (runs[0] != runs[2]).any()
    assert (attention(q, k, v, dropout_p=0.0, seed=1) == attention(q, k, v)).all()
    mean = numpy.mean([attention(q, k, v, dropout_p=0.5, seed=seed) for seed in range(400)], axis=0)
    assert_allclose(mean, attention(q, k, v), atol=0.12)
    # Without a seed NumPy's global generator draws one.
    numpy.random.seed(5)
    first = attention(q, k, v, dropout_p=0.5)
    second = attention(q, k, v, dropout_p=0.5)
    numpy.random.seed(5)
    assert (first != second).any() and (first == attention(q, k, v, dropout_p=0.5)).all()


def test_other_libraries_get_numpy():
    class Other:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self):  # without versions, as before DLPack 1.0
            return self.x.__dlpack__()

    arrays = reference.problem(1, 1, 1, 10, 10, 8)
    o = attention(*map(Other, arrays))
    assert type(o) is numpy.ndarray and (o == attention(*arrays)).all()


def test_flash_attn_func():
    q, k, v = reference.problem(2, 4, 2, 100, 150, 32)
    swapped = [x.swapaxes(1, 2) for x in (q, k, v)]
    o, lse, weights = flash_attn_func(*swapped, causal=True, window_size=(20, -1), return_attn_probs=True)
    expected_o, expected_lse = attention(q, k, v, causal=True, window=(20, None), return_lse=True)
    assert weights is None and o.flags.c_contiguous
    assert (o.swapaxes(1, 2) == expected_o).all() and (lse == expected_lse).all()
    assert (flash_attn_func(*swapped, 0.0, 0.2) == attention(q, k, v, scale=0.2).swapaxes(1, 2)).all()

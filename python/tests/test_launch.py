"""Kernels of one's own on the simulated device, in PTX: CUDA C++ needs a compiler, and the notebook's cells are of it."""

import numpy
import pytest
from attention_kernels import DeviceError, launch

N = 64
X = numpy.arange(N, dtype=numpy.float32)

HEAD = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry reverse(.param .u64 from, .param .u64 to, .param .f32 by, .param .s32 last) {
    .reg .b32 %r<6>;
    .reg .b64 %rd<5>;
    .reg .f32 %f<4>;
    .shared .align 4 .b8 tile[256];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mad.lo.s32 %r3, %r1, 4, %r2;
    ld.param.u64 %rd1, [from];
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    ld.global.f32 %f1, [%rd2];
    st.shared.f32 [%r3], %f1;
"""
TAIL = """
    ld.param.s32 %r4, [last];
    sub.s32 %r4, %r4, %r1;
    mad.lo.s32 %r5, %r4, 4, %r2;
    ld.shared.f32 %f2, [%r5];
    ld.param.f32 %f3, [by];
    mul.f32 %f2, %f2, %f3;
    ld.param.u64 %rd3, [to];
    mad.wide.u32 %rd4, %r1, 4, %rd3;
    st.global.f32 [%rd4], %f2;
    ret;
}
"""
RIGHT = HEAD + "    bar.sync 0;" + TAIL


def reverse(source, *arguments, grid=1, block=N, **options):
    arguments = arguments or (X, numpy.zeros(N, numpy.float32), 2.0, N - 1)
    return launch(source, "reverse", *arguments, grid=grid, block=block, **options)


def test_arrays_come_back():
    before = X.copy()
    same, reversed_x = reverse(RIGHT)
    assert (same == X).all() and (reversed_x == 2 * X[::-1]).all() and (before == X).all()


def test_profile():
    _, profile = reverse(RIGHT, grid=(1, 1), block=(N,), return_profile=True)
    assert profile["figures"]["flops_f32"]["value"] == N


class Index:
    """An integer of a library that is not installed."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize("one", [numpy.int64, numpy.uint8, numpy.array, Index])
def test_sizes_of_any_integer_type(one):
    several = [(one(1), one(1)), [one(1)]] + ([numpy.array([1, 1])] if one is numpy.array else [])
    for grid in [one(1), *several]:
        for block in [one(N), (one(N), 1)]:
            assert (reverse(RIGHT, grid=grid, block=block)[1] == 2 * X[::-1]).all()


def test_a_race_is_reported():
    all_write_one = RIGHT.replace("mad.wide.u32 %rd4, %r1, 4, %rd3;", "mov.u64 %rd4, %rd3;")
    with pytest.raises(DeviceError, match="^race"):
        reverse(all_write_one)


def test_a_missing_barrier_is_reported():
    with pytest.raises(DeviceError, match="^read of memory that nobody wrote"):
        reverse(HEAD + TAIL)


def test_a_fault_leaves_the_next_launch_alone():
    with pytest.raises(DeviceError, match="^out-of-bounds load"):
        reverse(RIGHT, X[:32].copy(), numpy.zeros(N, numpy.float32), 2.0, N - 1)
    assert (reverse(RIGHT)[1] == 2 * X[::-1]).all()


def test_numbers_have_32_bits_signed_or_not():
    with pytest.raises(DeviceError, match="^out-of-bounds"):
        reverse(RIGHT, X, numpy.zeros(N, numpy.float32), 2.0, (1 << 32) - 1)


def test_refusals():
    for error, match, arguments in [
        (TypeError, "`arguments` is int32, expected float32", (X.astype(numpy.int32), X, 2.0, 63)),
        (ValueError, "`arguments` has 2 axes", (X[None], X, 2.0, 63)),
        (TypeError, "`arguments` has .*str", (X, X, "2", 63)),
        (ValueError, "`arguments` has 1099511627776", (X, X, 2.0, 1 << 40)),
        (ValueError, "`arguments` has 1e", (X, X, 1e300, 63)),
        (MemoryError, "`arguments`", (numpy.broadcast_to(X[:1], 1 << 60), X, 2.0, 63)),
        (DeviceError, "argument|parameter", (X, X, 2.0)),
    ]:
        with pytest.raises(error, match=match):
            reverse(RIGHT, *arguments)
    for sizes in [0, (), (1, 1, 1, 1), -1, 1.0, (1, 1.0), numpy.float32(1), numpy.ones((1, 1), int), "1", None, 1 << 31]:
        with pytest.raises(ValueError, match="`grid`"):
            reverse(RIGHT, grid=sizes)
        with pytest.raises(ValueError, match="`block`"):
            reverse(RIGHT, block=sizes)
    with pytest.raises(DeviceError, match="forward"):
        launch(RIGHT, "forward", X, grid=1, block=1)

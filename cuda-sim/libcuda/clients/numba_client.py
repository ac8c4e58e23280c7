"""numba-cuda: a ragged kernel, shared memory, a shuffle, atomics, pinned and managed memory, streams and events."""

import numpy as np
from numba import cuda, float32


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit
def block_sums(x, sums):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = tile[0]


@cuda.jit
def warp_sum(x, total):
    value = x[cuda.grid(1)]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, value)


x = np.arange(1000, dtype=np.float32)
y = np.ones_like(x)
device_y = cuda.to_device(y)
axpy[8, 128](np.float32(2), cuda.to_device(x), device_y)
np.testing.assert_equal(device_y.copy_to_host(), 1 + 2 * x)

sums = cuda.device_array(16, np.float32)
block_sums[16, 64](cuda.to_device(x), sums)
padded = np.zeros(1024, np.float32)
padded[:1000] = x
np.testing.assert_equal(sums.copy_to_host(), padded.reshape(16, 64).sum(1))

ints = np.arange(256, dtype=np.int32)
total = cuda.to_device(np.zeros(1, np.int32))
warp_sum[4, 64](cuda.to_device(ints), total)
assert total.copy_to_host()[0] == ints.sum()

stream = cuda.stream()
start, end = cuda.event(), cuda.event()
with cuda.pinned(y):
    start.record(stream)
    on_device = cuda.to_device(y, stream=stream)
    axpy[8, 128, stream](np.float32(1), on_device, on_device)
    on_device.copy_to_host(y, stream=stream)
    end.record(stream)
    stream.synchronize()
np.testing.assert_equal(y, np.full(1000, 2, np.float32))
assert start.elapsed_time(end) > 0

managed = cuda.managed_array(100, np.float32)
managed[:] = 3
axpy[1, 128](np.float32(1), managed, managed)
cuda.synchronize()
np.testing.assert_equal(np.asarray(managed), np.full(100, 6, np.float32))

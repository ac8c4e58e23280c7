"""taichi, which writes PTX by LLVM: a sum, a stencil, atomics, shared memory, a sparse field, a gradient."""

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False)
assert ti.lang.impl.current_cfg().arch == ti.cuda, "taichi has found no device"


@ti.kernel
def total(x: ti.types.ndarray(dtype=ti.f32, ndim=1)) -> ti.f32:
    result = 0.0
    for i in x:
        result += x[i]
    return result


@ti.kernel
def smooth(field: ti.template(), smoothed: ti.template()):
    for i, j in field:
        result = field[i, j]
        if 0 < i < field.shape[0] - 1 and 0 < j < field.shape[1] - 1:
            result = 0.25 * (field[i - 1, j] + field[i + 1, j] + field[i, j - 1] + field[i, j + 1])
        smoothed[i, j] = result


@ti.kernel
def histogram(values: ti.types.ndarray(dtype=ti.i32, ndim=1), counts: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i in values:
        ti.atomic_add(counts[values[i] % counts.shape[0]], 1)


@ti.kernel
def block_sums(x: ti.types.ndarray(dtype=ti.f32, ndim=1), sums: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    ti.loop_config(block_dim=64)
    for i in range(1024):
        tile = ti.simt.block.SharedArray((64,), ti.f32)
        t = i % 64
        tile[t] = x[i]
        ti.simt.block.sync()
        step = 32
        while step > 0:
            if t < step:
                tile[t] += tile[t + step]
            ti.simt.block.sync()
            step //= 2
        if t == 0:
            sums[i // 64] = tile[0]


@ti.kernel
def draw(sparse: ti.template()):
    for i in range(32):
        sparse[i, i] = i


@ti.kernel
def active(sparse: ti.template()) -> ti.i32:
    number = 0
    for i, j in sparse:
        number += 1
    return number


@ti.kernel
def squares(x: ti.template(), loss: ti.template()):
    for i in x:
        loss[None] += x[i] ** 2


x = np.arange(1000, dtype=np.float32)
assert total(x) == x.sum()

rng = np.random.default_rng(1)
image = rng.integers(0, 256, (37, 53)).astype(np.float32)
field, smoothed = ti.field(ti.f32, image.shape), ti.field(ti.f32, image.shape)
field.from_numpy(image)
for _ in range(2):
    smooth(field, smoothed)
    field, smoothed = smoothed, field
    inner = 0.25 * (image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:])
    image = image.copy()
    image[1:-1, 1:-1] = inner
np.testing.assert_equal(field.to_numpy(), image)

values = rng.integers(0, 1000, 5000).astype(np.int32)
counts = ti.ndarray(ti.i32, 16)
counts.fill(0)
histogram(values, counts)
np.testing.assert_equal(counts.to_numpy(), np.bincount(values % 16, minlength=16))

x, sums = np.arange(1024, dtype=np.float32), np.empty(16, np.float32)
block_sums(x, sums)
np.testing.assert_equal(sums, x.reshape(16, 64).sum(1))

sparse = ti.field(ti.f32)
ti.root.pointer(ti.ij, 8).dense(ti.ij, 4).place(sparse)
draw(sparse)
assert active(sparse) == 8 * 4 * 4  # the blocks of 4 x 4 on the diagonal
np.testing.assert_equal(sparse.to_numpy(), np.diag(np.arange(32)))

x = ti.field(ti.f64, 8, needs_grad=True)
loss = ti.field(ti.f64, (), needs_grad=True)
x.from_numpy(np.arange(8.0))
with ti.ad.Tape(loss):
    squares(x, loss)
assert loss[None] == np.square(np.arange(8)).sum()
np.testing.assert_equal(x.grad.to_numpy(), 2 * np.arange(8))

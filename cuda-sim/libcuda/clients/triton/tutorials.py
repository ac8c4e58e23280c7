"""The kernels of Triton's tutorials 01 to 06, unchanged, with host code of our own; results against NumPy in f64.

    tutorials.py FOLDER/01-vector-add.py

Shapes, block sizes and warps are those of the tutorial's test. Of the file only the functions under `@triton.jit` are run: the
rest needs PyTorch, and finds block sizes by time. They keep their lines, which reports of faults name.
"""

import ast
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import triton
from triton.tools.tensor_descriptor import TensorDescriptor
from without_gpu import Array

rng = np.random.default_rng(1)


def main():
    path = Path(sys.argv[1])
    TUTORIALS[path.stem](kernels(path))


def kernels(path):
    """The functions of a file under `@triton.jit`, without other decorators, and what it imports of Triton."""
    tree = ast.parse(path.read_text())
    tree.body = [statement for statement in tree.body if is_kernel(statement) or imports_triton(statement)]
    names = {"__name__": path.stem}
    exec(compile(tree, path, "exec"), names)
    return SimpleNamespace(**names)


def is_kernel(statement):
    if not isinstance(statement, ast.FunctionDef):
        return False
    statement.decorator_list = [name for name in statement.decorator_list if ast.unparse(name) == "triton.jit"]
    return bool(statement.decorator_list)


def imports_triton(statement):
    return isinstance(statement, (ast.Import, ast.ImportFrom)) and "triton" in ast.unparse(statement)


class Case:
    """A named case: `check` compares a result, and the end prints the largest difference of each and the seconds of all."""

    def __init__(self, name):
        self.name, self.differences = name, []

    def __enter__(self):
        self.start = time.monotonic()
        return self

    def check(self, what, result, expected, tolerance):
        difference = np.abs(result.numpy().astype(float) - expected).max()
        assert difference <= tolerance, (self.name, what, difference)  # false for NaN
        self.differences.append(f"{what} {difference:.1e}")

    def __exit__(self, kind, *_):
        if kind is None:
            seconds = time.monotonic() - self.start
            print(f"  {self.name}: largest difference of {', '.join(self.differences)} ({seconds:.1f} s)", flush=True)


def vector_add(tutorial):
    size = 98432
    x, y = rng.random((2, size), np.float32)
    with Case(f"add_kernel, {size}") as case:
        output = Array(size, np.float32)
        tutorial.add_kernel[(triton.cdiv(size, 1024),)](Array.of(x), Array.of(y), output, size, BLOCK_SIZE=1024)
        case.check("output", output, x.astype(float) + y, 1e-7)


def fused_softmax(tutorial):
    rows, columns = 1823, 781
    x = rng.standard_normal((rows, columns), np.float32)
    device = triton.runtime.driver.active.utils.get_device_properties(0)
    stages = 4 if device["max_shared_mem"] > 200000 else 2
    with Case(f"softmax_kernel, {rows} x {columns}") as case:
        output = Array(x.shape, np.float32)
        meta = {"BLOCK_SIZE": triton.next_power_of_2(columns), "num_stages": stages, "num_warps": 8}
        tutorial.softmax_kernel[(device["multiprocessor_count"],)](output, Array.of(x), columns, columns, rows, columns, **meta)
        exponents = np.exp(x.astype(float))
        case.check("output", output, exponents / exponents.sum(1, keepdims=True), 1e-7)


def matmul(tutorial):
    M, N, K = 512, 512, 512

    def product(name, a, b, blocks, tolerance, activation=""):
        with Case(f"matmul_kernel, {M} x {N} x {K}, {name}") as case:
            c = Array((M, N), np.float16)
            in_memory = b if b.flags.c_contiguous else b.T
            strides = (K, 1, *(stride // b.itemsize for stride in b.strides), N, 1)
            meta = dict(zip(["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_stages", "num_warps"], blocks))
            meta |= {"GROUP_SIZE_M": 8, "ACTIVATION": activation}
            grid = (triton.cdiv(M, blocks[0]) * triton.cdiv(N, blocks[1]),)
            tutorial.matmul_kernel[grid](Array.of(a), Array.of(in_memory), c, M, N, K, *strides, **meta)
            expected = a.astype(float) @ b.astype(float)
            if activation:
                expected = np.where(expected >= 0, expected, 0.01 * expected)
            case.check("c", c, expected, tolerance)

    a, b = (rng.random((2, 512, 512)) - 0.5).astype(np.float16)
    product("fp16", a, b, (128, 256, 64, 3, 8), 1e-2)
    product("fp16, small blocks", a, b, (64, 32, 32, 5, 2), 1e-2)
    product("fp16, leaky_relu", a, b, (128, 256, 64, 3, 8), 1e-2, "leaky_relu")
    a, b = rng.standard_normal((2, 512, 512)).astype(ml_dtypes.float8_e5m2)
    product("fp8", a, b.T, (128, 64, 64, 4, 4), 0.125)


def dropout(tutorial):
    size, p = 5000, 0.5
    grid = (triton.cdiv(size, 1024),)
    x = rng.standard_normal(size, np.float32)
    keep = (rng.random(size) > p).astype(np.int32)
    with Case(f"_dropout, {size}") as case:
        output = Array(size, np.float32)
        tutorial._dropout[grid](Array.of(x), Array.of(keep), output, size, p, BLOCK_SIZE=1024)
        case.check("output", output, np.where(keep, x / (1 - p), 0), 0)
    with Case(f"_seeded_dropout, {size}") as case:
        for seed in 123, 512:
            output = Array(size, np.float32)
            tutorial._seeded_dropout[grid](Array.of(x), output, size, p, seed, BLOCK_SIZE=1024)
            case.check(f"seed {seed}", output, np.where(philox(seed, size) > p, x / (1 - p), 0), 0)


def philox(seed, size):
    """Numbers from 0 to 1 by Philox-4x32-10 of Salmon et al., one for each counter below `size`."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [np.arange(size, dtype=np.uint64), *np.zeros((3, size), np.uint64)]
    key = [seed, 0]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        left = (second >> high) ^ counter[1] ^ np.uint64(key[0])
        right = (first >> high) ^ counter[3] ^ np.uint64(key[1])
        counter = [left, second & low, right, first & low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    number = counter[0].astype(np.uint32).view(np.int32)
    return np.where(number < 0, ~number, number) * 4.6566127342e-10


def layer_norm(tutorial):
    M, N = 1151, 8192
    groups = 96
    dtype = np.float16
    w, b = rng.random((2, N)).astype(dtype)
    x = (-2.3 + 0.5 * rng.standard_normal((M, N))).astype(dtype)
    dy = (0.1 * rng.standard_normal((M, N))).astype(dtype)
    wide_x = x.astype(float)
    deviation = wide_x.std(1, keepdims=True)
    x_hat = (wide_x - wide_x.mean(1, keepdims=True)) / deviation
    X, W = Array.of(x), Array.of(w)
    mean, rstd = Array(M, np.float32), Array(M, np.float32)
    with Case(f"_layer_norm_fwd_fused, {M} x {N}, fp16") as case:
        y = Array((M, N), dtype)
        tutorial._layer_norm_fwd_fused[(M,)](X, y, W, Array.of(b), mean, rstd, N, N, 1e-5, BLOCK_SIZE=N, num_warps=8)
        case.check("y", y, x_hat * w + b, 1e-2)
    with Case(f"_layer_norm_bwd_dx_fused, _layer_norm_bwd_dwdb, {M} x {N}, fp16") as case:
        partial_dw, partial_db = (Array.of(np.zeros((groups, N), dtype)) for _ in range(2))
        dx, dw, db = Array((M, N), dtype), Array(N, dtype), Array(N, dtype)
        locks = Array.of(np.zeros(2 * groups, np.int32))
        meta = {"GROUP_SIZE_M": groups, "BLOCK_SIZE_N": N, "num_warps": 8}
        tutorial._layer_norm_bwd_dx_fused[(M,)](
            dx, Array.of(dy), partial_dw, partial_db, X, W, mean, rstd, locks, N, N, **meta
        )
        meta = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 128}
        tutorial._layer_norm_bwd_dwdb[(triton.cdiv(N, 128),)](partial_dw, partial_db, dw, db, groups, N, **meta)
        wdy = w.astype(float) * dy
        means = x_hat * (x_hat * wdy).mean(1, keepdims=True) + wdy.mean(1, keepdims=True)
        case.check("dx", dx, (wdy - means) / deviation, 1e-2)
        case.check("dw", dw, (dy * x_hat).sum(0), 1e-2)
        case.check("db", db, dy.astype(float).sum(0), 1e-2)


def fused_attention(tutorial):
    for N, D in (128, 64), (1024, 64), (128, 128), (1024, 128):
        for causal in False, True:
            attention(tutorial, (1, 2, N, D), causal)


def attention(tutorial, shape, causal):
    """Forward and backward. On Hopper the host makes the tensor maps, or with warps of two roles, the kernel itself."""
    Z, H, N, D = shape
    name = f"{' x '.join(map(str, shape))}, {'causal' if causal else 'full'}"
    scale = 0.5
    q, k, v = rng.normal(0, 0.5, (3, *shape)).astype(np.float16)
    do = rng.standard_normal(shape).astype(np.float16)
    wide_q, wide_k, wide_v, wide_do = (matrix.astype(float) for matrix in (q, k, v, do))
    p = np.exp(scale * wide_q @ transposed(wide_k))
    if causal:
        p[:, :, ~np.tri(N, dtype=bool)] = 0
    sums = p.sum(-1, keepdims=True)
    p /= sums
    o = p @ wide_v

    Q, K, V, DO = (Array.of(matrix) for matrix in (q, k, v, do))
    O, M = Array(shape, np.float16), Array(shape[:3], np.float32)
    is_hopper = triton.runtime.driver.active.get_current_target().arch == 90
    # Triton does not compile both loops of a causal kernel with warps of two roles.
    for specialized in (False, True) if is_hopper and not causal else (False,):
        with Case(f"_attn_fwd, {name}{', specialized warps' if specialized else ''}") as case:
            blocks = {"BLOCK_M": 128, "BLOCK_N": 64, "num_stages": 2, "num_warps": 4}
            tensors = [Q, K, V, O]
            if is_hopper and not specialized:
                rows = [128, 64, 64, 128]
                tensors = [TensorDescriptor(t, [Z * H * N, D], [D, 1], [r, D]) for t, r in zip(tensors, rows)]
            meta = {"HEAD_DIM": D, "FP8_OUTPUT": False, "STAGE": 3 if causal else 1, "IS_HOPPER": is_hopper}
            tutorial._attn_fwd[(triton.cdiv(N, 128), Z * H, 1)](
                scale, M, Z, H, *tensors, N_CTX=N, warp_specialize=specialized, **meta, **blocks
            )
            case.check("o", O, o, 1e-2)
            case.check("log-sum-exp", M, np.log2(sums)[..., 0], 1e-5)
    with Case(f"_attn_bwd_preprocess, _attn_bwd, {name}") as case:
        delta = Array(shape[:3], np.float32)
        tutorial._attn_bwd_preprocess[(N // 128, Z * H)](O, DO, delta, Z, H, N, BLOCK_M=128, HEAD_DIM=D)
        dq, dk, dv = (Array(shape, np.float16) for _ in range(3))
        scaled_k = Array.of(k * np.float16(scale / np.log(2)))
        blocks = {"BLOCK_M1": 32, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 32, "BLK_SLICE_FACTOR": 2}
        meta = {"HEAD_DIM": D, "CAUSAL": causal, "num_warps": 4, "num_stages": 5}
        strides = (H * N * D, N * D, D, 1)
        tutorial._attn_bwd[(N // 128, 1, Z * H)](
            Q, scaled_k, V, scale, DO, dq, dk, dv, M, delta, *strides, H, N, **blocks, **meta
        )
        ds = scale * p * (wide_do @ transposed(wide_v) - (wide_do * o).sum(-1, keepdims=True))
        case.check("dq", dq, ds @ wide_k, 1e-2)
        case.check("dk", dk, transposed(ds) @ wide_q, 1e-2)
        case.check("dv", dv, transposed(p) @ wide_do, 1e-2)


def transposed(matrices):
    return matrices.swapaxes(-1, -2)


TUTORIALS = {
    "01-vector-add": vector_add,
    "02-fused-softmax": fused_softmax,
    "03-matrix-multiplication": matmul,
    "04-low-memory-dropout": dropout,
    "05-layer-norm": layer_norm,
    "06-fused-attention": fused_attention,
}

if __name__ == "__main__":
    main()

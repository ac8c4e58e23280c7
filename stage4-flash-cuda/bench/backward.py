#!/usr/bin/env python3
"""Times the backward pass in f16, `kernels/backward/2_mma`, beside that of PyTorch's flash backend, on a GPU.

    python stage4-flash-cuda/bench/backward.py      (where torch with CUDA is installed)

Loads the committed PTX by the driver's own functions: no cargo is needed. B = 4, H = 32, D = 64 and 128, N = 1024 and 4096. Both
sides have the same o and log-sum-exp, from PyTorch's forward pass. Medians of 7 runs by the device's clock, and the largest
difference of a gradient over its largest value. Without a GPU it says so.
"""

import ctypes
import pathlib
import re
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit("skipped: there is no torch here")
if not torch.cuda.is_available():
    sys.exit("skipped: PyTorch sees no GPU")

PTX = pathlib.Path(__file__).resolve().parent.parent / "ptx" / "backward"
DRIVER = ctypes.CDLL("libcuda.so.1")
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
B, H, RUNS = 4, 32, 7


def checked(result):
    assert result == 0, f"CUDA error {result}"


class Kernel:
    """A kernel of a committed file, and the tile in its name."""

    def __init__(self, pattern, name):
        (path,) = PTX.glob(pattern)
        self.tile = {key: int(value) for key, value in re.findall(r"(BLOCK_Q|BLOCK_KV|THREADS)_(\d+)", path.name)}
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        checked(DRIVER.cuModuleLoadData(ctypes.byref(module), path.read_bytes() + b"\0"))
        checked(DRIVER.cuModuleGetFunction(ctypes.byref(self.function), module, name.encode()))

    def launch(self, blocks, threads, shared, arguments):
        values = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in arguments]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        checked(DRIVER.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED, shared))
        checked(DRIVER.cuLaunchKernel(self.function, blocks, 1, 1, threads, 1, 1, shared, stream, pointers, None))


def ours(q, k, v, o, lse, d_o, causal):
    """The three launches, as a function; it returns dq, dk and dv."""
    n, d = q.shape[2:]
    delta = torch.empty_like(lse)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    dots = Kernel("row_dots-ELEMENT_f16.ptx", "row_dots")
    keys = Kernel(f"2_mma_dk_dv-*HEAD_DIM_{d}-*", "mma_dk_dv")
    queries = Kernel(f"2_mma_dq-*HEAD_DIM_{d}-*", "mma_dq")
    sizes = [ctypes.c_int(n), ctypes.c_int(n), ctypes.c_float(d**-0.5), ctypes.c_int(causal)]

    def run():
        dots.launch(B * H * n // 8, 256, 0, [d_o, o, delta, ctypes.c_longlong(B * H * n), ctypes.c_int(d)])
        # As `shared_bytes` in src/backward/kernel.rs has them.
        bq, bkv = keys.tile["BLOCK_Q"], keys.tile["BLOCK_KV"]
        shared = 4 * ((bq + bkv) * d + bq * bkv // 2 + 2 * bq)
        keys.launch(B * H * -(-n // bkv), keys.tile["THREADS"], shared, [q, k, v, d_o, lse, delta, dk, dv, *sizes])
        bq, bkv = queries.tile["BLOCK_Q"], queries.tile["BLOCK_KV"]
        shared = 4 * ((bq + bkv) * d + 2 * bq)
        queries.launch(B * H * -(-n // bq), queries.tile["THREADS"], shared, [q, k, v, d_o, lse, delta, dq, *sizes])
        return dq, dk, dv

    return run


def milliseconds(run):
    run()  # to warm up
    pairs = []
    for _ in range(RUNS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs)


def main():
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}")
    for d in (64, 128):
        for n in (1024, 4096):
            for causal in (False, True):
                q, k, v, d_o = (torch.randn(B, H, n, d, device="cuda", dtype=torch.float16) for _ in range(4))
                leaves = [x.requires_grad_() for x in (q, k, v)]
                o, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2]
                flash = lambda: torch.autograd.grad(o, leaves, d_o, retain_graph=True)
                run = ours(*(x.detach().contiguous() for x in (q, k, v, o)), lse.contiguous(), d_o, causal)
                pairs = zip(run(), flash())
                error = max(((x - y).abs().max() / y.abs().max()).item() for x, y in pairs)
                times = milliseconds(run), milliseconds(flash)
                print(f"D = {d}, N = {n}, causal {causal}: ours {times[0]:.3f} ms, flash {times[1]:.3f} ms, error {error:.1e}")


if __name__ == "__main__":
    main()

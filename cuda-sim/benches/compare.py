#!/usr/bin/env python3
"""How long kernels take on two builds of the driver: the same launches on both, in turns, in one process.

    cargo build --release -p cuda-sim-libcuda     (in both trees)
    benches/compare.py OLD/libcuda.so NEW/libcuda.so [--seconds 4] [--kernel NAME]

Prints a table of processor times on one host thread, with all checks: the least and the median of each build, and new over
old. It ends if the results of a kernel differ. The placement of code and data changes times by a few per cent: compare in
both orders.
`CUDA_SIM_CHECK=off` measures without checks.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BYTES = 1 << 20
A, B, C = 0, 1, 2
Int, Float, Double = ctypes.c_int, ctypes.c_float, ctypes.c_double

LADDER, WARPS, TRAFFIC = (f"cuda-sim/ptx/{name}.ptx" for name in ("sgemm_ladder", "sgemm_warps", "traffic"))
# Name, file, kernel, grid, block, arguments: A, B and C are arrays of f32.
LAUNCHES = [
    ("tiled GEMM", "cuda-sim/ptx/tiled_gemm.ptx", "tiled_gemm", (16, 16), (16, 16), [A, B, C, Int(256)]),
    ("row softmax", "cuda-sim/ptx/row_softmax.ptx", "row_softmax", (64, 1), (128, 1), [A, B, Int(1024)]),
    ("sgemm_coalesced", LADDER, "sgemm_coalesced", (4, 4), (32, 32), [A, B, C, Int(128), Int(128)]),
    # Rows of a wider block than the kernel is for overlap: blocks write the same words, so the launch runs a second time,
    # one block after the other, with the race detector.
    ("in order", LADDER, "sgemm_coalesced", (4, 4), (1024, 1), [A, B, C, Int(128), Int(128)]),
    ("sgemm_vectors", LADDER, "sgemm_vectors", (2, 2), (256, 1), [A, B, C, Int(256), Int(256)]),
    ("sgemm_warps", WARPS, "sgemm_warps", (2, 2), (128, 1), [A, B, C, Int(256), Int(256)]),
    ("copy", TRAFFIC, "copy", (256, 1), (256, 1), [A, B, Int(65536)]),
    ("copy_vectors", TRAFFIC, "copy_vectors", (64, 1), (256, 1), [A, B, Int(16384)]),
    ("copy_strided", TRAFFIC, "copy_strided", (64, 1), (256, 1), [A, B, Int(16384), Int(4)]),
    ("copy_bytes", TRAFFIC, "copy_bytes", (256, 1), (256, 1), [A, B, Int(65536)]),
    ("uneven_loop", TRAFFIC, "uneven_loop", (64, 1), (256, 1), [B, Float(0.5), Int(16384)]),
    ("two_ways", TRAFFIC, "two_ways", (64, 1), (256, 1), [A, B, Int(16384)]),
    ("axpy", TRAFFIC, "axpy", (64, 1), (256, 1), [Double(0.5), A, C, Int(16384)]),
    ("stage 2 softmax", "stage2-naive-cuda/ptx/library/softmax.ptx", "softmax", (64, 1), (128, 1), [A, B, Int(64), Int(1024)]),
]


class Driver:
    """One build of the driver, with three arrays in its device memory."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path.resolve()))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.arrays = [ctypes.c_uint64() for _ in (A, B, C)]
        for array in self.arrays:
            self.call("cuMemAlloc_v2", ctypes.byref(array), ctypes.c_size_t(BYTES))

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise SystemExit(f"{self.library._name}: {name} returned {status}")

    def fill(self):
        """Fills the arrays with small numbers."""
        numbers = (ctypes.c_float * (BYTES // 4))(*[k % 13 - 6.0 for k in range(BYTES // 4)])
        for array in self.arrays:
            self.call("cuMemcpyHtoD_v2", array, numbers, ctypes.c_size_t(BYTES))

    def contents(self):
        """The bytes of all arrays."""
        bytes_of = [ctypes.create_string_buffer(BYTES) for _ in self.arrays]
        for array, to in zip(self.arrays, bytes_of):
            self.call("cuMemcpyDtoH_v2", to, array, ctypes.c_size_t(BYTES))
        return [to.raw for to in bytes_of]

    def kernel(self, file, name, arguments):
        """What launches a kernel with a grid and a block."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), (ROOT / file).read_bytes() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        values = [self.arrays[value] if isinstance(value, int) else value for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])

        def launch(grid, block):
            self.call("cuLaunchKernel", function, *grid, 1, *block, 1, 0, None, pointers, None)
            self.call("cuCtxSynchronize")

        launch.keeps = values
        return launch


def milliseconds(launch, grid, block):
    start = time.process_time_ns()
    launch(grid, block)
    return (time.process_time_ns() - start) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=4, help="per kernel")
    parser.add_argument("--kernel", choices=[name for name, *_ in LAUNCHES], help="this one only")
    arguments = parser.parse_args()
    os.environ["CUDA_SIM_THREADS"] = "1"
    drivers = [Driver(arguments.old), Driver(arguments.new)]
    print("| kernel | old, ms | new, ms | least | median | launches |\n|---|---|---|---|---|---|")
    for name, file, kernel, grid, block, values in LAUNCHES:
        if arguments.kernel not in (None, name):
            continue
        launches = [driver.kernel(file, kernel, values) for driver in drivers]
        for driver, launch in zip(drivers, launches):
            driver.fill()
            launch(grid, block)
        if drivers[0].contents() != drivers[1].contents():
            raise SystemExit(f"{name}: the builds disagree")
        times = [[], []]
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end or len(times[0]) < 10:
            turn = (0, 1) if len(times[0]) % 2 else (1, 0)
            for build in turn:
                times[build].append(milliseconds(launches[build], grid, block))
        old, new = map(min, times)
        median = statistics.median(times[1]) / statistics.median(times[0])
        print(f"| {name} | {old:.3f} | {new:.3f} | {new / old:.3f} | {median:.3f} | {len(times[0])} |", flush=True)


if __name__ == "__main__":
    main()

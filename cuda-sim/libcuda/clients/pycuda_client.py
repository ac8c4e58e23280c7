"""PyCUDA: a module of PTX that NVRTC has made, arrays, shared memory, constants, streams and events, pinned and managed memory."""

import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from cuda.bindings import nvrtc
from pycuda.gpuarray import to_gpu

SOURCE = b"""
__constant__ float by;
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * by * x[i];
}
extern "C" __global__ void block_sums(const float* x, float* sums, int n) {
    extern __shared__ float tile[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (t < step) tile[t] += tile[t + step];
    }
    if (t == 0) sums[blockIdx.x] = tile[0];
}
"""


def check(outcome):
    error, *values = outcome
    assert error == 0, error
    return values[0] if len(values) == 1 else values


program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"client.cu", 0, [], []))
major, minor = pycuda.autoinit.device.compute_capability()
check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{major}{minor}".encode()]))
ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
check(nvrtc.nvrtcGetPTX(program, ptx))

module = cuda.module_from_buffer(ptx)
axpy, block_sums = module.get_function("axpy"), module.get_function("block_sums")
address, size = module.get_global("by")
assert size == 4
cuda.memcpy_htod(address, np.float32(0.5))

x = np.arange(1000, dtype=np.float32)
on_device = to_gpu(np.ones_like(x))
axpy(np.float32(2), cuda.In(x), on_device, np.int32(1000), grid=(8, 1), block=(128, 1, 1))
np.testing.assert_equal(on_device.get(), 1 + x)
np.testing.assert_equal(on_device[10:20].get(), 1 + x[10:20])

sums = np.empty(16, np.float32)
block_sums.prepare("PPi")
with_zeros = np.zeros(1024, np.float32)
with_zeros[:1000] = x
memory = cuda.to_device(x)
result = cuda.mem_alloc(sums.nbytes)
block_sums.prepared_call((16, 1), (64, 1, 1), memory, result, 1000, shared_size=64 * 4)
cuda.memcpy_dtoh(sums, result)
np.testing.assert_equal(sums, with_zeros.reshape(16, 64).sum(1))

stream, start, end = cuda.Stream(), cuda.Event(), cuda.Event()
pinned = cuda.pagelocked_empty(1000, np.float32)
pinned[:] = x
start.record(stream)
cuda.memcpy_htod_async(memory, pinned, stream)
axpy(np.float32(2), memory, on_device, np.int32(1000), grid=(8, 1), block=(128, 1, 1), stream=stream)
cuda.memcpy_dtoh_async(pinned, on_device.gpudata, stream)
end.record(stream)
end.synchronize()
np.testing.assert_equal(pinned, 1 + 2 * x)
assert end.time_since(start) > 0

managed = cuda.managed_zeros(100, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
managed[:] = 1
axpy(np.float32(2), managed, managed, np.int32(100), grid=(1, 1), block=(128, 1, 1))
pycuda.autoinit.context.synchronize()
np.testing.assert_equal(np.asarray(managed), np.full(100, 2, np.float32))

try:
    axpy(np.float32(2), memory, memory, np.int32(1000), grid=(1, 1), block=(2048, 1, 1))
    raise SystemExit("a block of 2048 threads was launched")
except cuda.LogicError as error:
    assert "at most 1024" in str(error), error

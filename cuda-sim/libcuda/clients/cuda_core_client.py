"""cuda.core of cuda-python: compile, launch, copy, events, a graph, and an error that names itself."""

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
template <typename T> __global__ void axpy(T a, const T* x, T* y, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void add_one(int* p) { atomicAdd(p, 1); }
"""

device = Device()
device.set_current()
assert device.name.startswith("cuda-sim"), device.name
stream = device.create_stream()
arch = "".join(str(part) for part in device.compute_capability)
program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{arch}"))
module = program.compile("ptx", name_expressions=("axpy<float>", "axpy<double>"))

memory = device.memory_resource
size = 1000
for dtype, name in ((np.float32, "axpy<float>"), (np.float64, "axpy<double>")):
    x, y = np.arange(size, dtype=dtype), np.ones(size, dtype)
    buffers = [memory.allocate(x.nbytes, stream=stream) for _ in range(2)]
    from cuda.bindings import driver

    for buffer, host in zip(buffers, (x, y)):
        (error,) = driver.cuMemcpyHtoDAsync(int(buffer.handle), host.ctypes.data, host.nbytes, stream.handle)
        assert error == 0, error
    kernel = module.get_kernel(name)
    start, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    stream.record(start)
    launch(stream, LaunchConfig(grid=(size + 127) // 128, block=128), kernel, dtype(2), *buffers, size)
    stream.record(end)
    result = np.empty_like(y)
    (error,) = driver.cuMemcpyDtoHAsync(result.ctypes.data, int(buffers[1].handle), result.nbytes, stream.handle)
    assert error == 0, error
    stream.sync()
    np.testing.assert_equal(result, 1 + 2 * x)
    assert end - start > 0
    for buffer in buffers:
        buffer.close(stream)

counter = memory.allocate(4, stream=stream)
counter.fill(0, stream=stream)
stream.sync()
add_one = module.get_kernel("add_one")
builder = device.create_graph_builder().begin_building()
for _ in range(3):
    launch(builder, LaunchConfig(grid=2, block=32), add_one, counter)
graph = builder.end_building().complete()
for _ in range(2):
    graph.launch(stream)
(error,) = driver.cuMemcpyDtoHAsync((host := np.zeros(1, np.int32)).ctypes.data, int(counter.handle), 4, stream.handle)
stream.sync()
assert host[0] == 3 * 2 * 64, host

try:
    launch(stream, LaunchConfig(grid=1, block=2048), add_one, counter)
    raise SystemExit("a block of 2048 threads was launched")
except Exception as error:
    assert "INVALID_VALUE" in str(error), error

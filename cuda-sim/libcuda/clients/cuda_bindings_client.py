"""cuda.bindings of cuda-python: the driver API by name, with libraries, linkers and graphs built node by node."""

import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc


def check(outcome):
    error, *values = outcome
    assert error == 0, (error, driver.cuGetErrorString(error) if isinstance(error, driver.CUresult) else "")
    return values[0] if len(values) == 1 else values


check(driver.cuInit(0))
device = check(driver.cuDeviceGet(0))
major, minor = check(driver.cuDeviceComputeCapability(device))
context = check(driver.cuDevicePrimaryCtxRetain(device))
check(driver.cuCtxSetCurrent(context))

SOURCE = b'extern "C" __global__ void scale(float* x, float by) { x[blockIdx.x * blockDim.x + threadIdx.x] *= by; }'
program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"scale.cu", 0, [], []))
check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{major}{minor}".encode()]))
ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
check(nvrtc.nvrtcGetPTX(program, ptx))

linker = check(driver.cuLinkCreate(0, [], []))
check(driver.cuLinkAddData(linker, driver.CUjitInputType.CU_JIT_INPUT_PTX, ptx, len(ptx), b"scale", 0, [], []))
image, size = check(driver.cuLinkComplete(linker))
library = check(driver.cuLibraryLoadData(ctypes.string_at(image, size), [], [], 0, [], [], 0))
check(driver.cuLinkDestroy(linker))
kernel = check(driver.cuLibraryGetKernel(library, b"scale"))
function = check(driver.cuKernelGetFunction(kernel))
assert check(driver.cuFuncGetName(function)) == b"scale"

x = np.arange(64, dtype=np.float32)
memory = check(driver.cuMemAlloc(x.nbytes))
check(driver.cuMemcpyHtoD(memory, x.ctypes.data, x.nbytes))
assert [int(part) for part in check(driver.cuMemGetAddressRange(int(memory) + 4))] == [int(memory), x.nbytes]

graph = check(driver.cuGraphCreate(0))
params = driver.CUDA_KERNEL_NODE_PARAMS()
params.func = function
params.gridDimX, params.gridDimY, params.gridDimZ = 2, 1, 1
params.blockDimX, params.blockDimY, params.blockDimZ = 32, 1, 1
params.kernelParams = ((memory, 2.0), (None, ctypes.c_float))
first = check(driver.cuGraphAddKernelNode(graph, [], 0, params))
second = check(driver.cuGraphAddKernelNode(graph, [first], 1, params))
executable = check(driver.cuGraphInstantiate(graph, 0))
check(driver.cuGraphLaunch(executable, 0))
params.kernelParams = ((memory, 0.5), (None, ctypes.c_float))
check(driver.cuGraphExecKernelNodeSetParams(executable, second, params))
check(driver.cuGraphLaunch(executable, 0))
result = np.empty_like(x)
check(driver.cuMemcpyDtoH(result.ctypes.data, memory, x.nbytes))
np.testing.assert_equal(result, x * 4)

check(driver.cuGraphExecDestroy(executable))
check(driver.cuGraphDestroy(graph))
check(driver.cuMemFree(memory))
check(driver.cuLibraryUnload(library))

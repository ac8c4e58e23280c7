"""Triton without a GPU and without PyTorch: `import without_gpu` ends its pipeline at PTX; `Array` is an argument of kernels."""

import ctypes

import numpy as np
import triton


def end_at_ptx(backend=None, stages=None, options=None, language=None, capability=None):
    """Replaces the stage that calls ptxas: the driver gets the PTX text. Without arguments, the key of Triton's cache."""
    if stages is None:
        return "end_at_ptx", "end_at_ptx"
    stages["cubin"] = lambda ptx, metadata: ptx.encode()


triton.knobs.runtime.add_stages_inspection_hook = end_at_ptx
triton.runtime.driver.active.get_current_device()  # makes the context of this thread

driver = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(text.value.decode())


class Array:
    """An array in device memory. Its bytes are unset, which the driver checks, unless it is made `of` others."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(np.atleast_1d(shape)), np.dtype(dtype)
        self.bytes = ctypes.c_size_t(int(np.prod(self.shape)) * self.dtype.itemsize)
        self.address = ctypes.c_uint64()
        check(driver.cuMemAlloc_v2(ctypes.byref(self.address), self.bytes))

    @classmethod
    def of(cls, values):
        values = np.ascontiguousarray(values)
        array = cls(values.shape, values.dtype)
        check(driver.cuMemcpyHtoD_v2(array.address, ctypes.c_void_p(values.ctypes.data), array.bytes))
        return array

    def __del__(self):
        driver.cuMemFree_v2(self.address)

    def data_ptr(self):
        return self.address.value

    def numpy(self):
        values = np.empty(self.shape, self.dtype)
        check(driver.cuMemcpyDtoH_v2(ctypes.c_void_p(values.ctypes.data), self.address, self.bytes))
        return values


# Memory that Triton asks for: the tensor maps that a kernel makes.
triton.set_allocator(lambda size, alignment, stream: Array(size, np.int8))

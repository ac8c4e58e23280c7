"""An array library of a few lines: memory by cuda-python, handed over by DLPack."""

import ctypes
from itertools import count

import numpy
from cuda.bindings import driver

FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_ordinal", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", FREE),
    ]


class Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", FREE),
        ("flags", ctypes.c_uint64),
        *Tensor._fields_[: Tensor._fields_.index(("context", ctypes.c_void_p))],
    ]


READ_ONLY = 1

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

KINDS = {"f": 2, "i": 0}  # DLPack's codes
lent = {}  # what capsules point to, until it is given back
numbers = count(1)


@FREE
def give_back(tensor):
    del lent[Tensor.from_address(tensor).context]


@FREE
def give_back_versioned(tensor):
    del lent[Versioned.from_address(tensor).context]


def check(outcome):
    error, *values = outcome
    assert error == 0, driver.cuGetErrorString(error)
    return values[0] if len(values) == 1 else values


def open_device():
    """Makes the primary context of device 0 current, as a CUDA library does."""
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))


class Array:
    """An array in device memory. `strides` are in elements. If it is read-only, it says so by DLPack 1.0."""

    device = 0
    is_read_only = False

    def __init__(self, shape, dtype, strides=None):
        self.shape, self.dtype = tuple(shape), numpy.dtype(dtype)
        packed = numpy.empty(self.shape, numpy.uint8).strides
        self.strides = tuple(packed if strides is None else strides)
        last = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides))
        self.bytes = (last + 1) * self.dtype.itemsize
        self.pointer = int(check(driver.cuMemAlloc(self.bytes)))
        check(driver.cuMemsetD8(self.pointer, 255, self.bytes))  # NaN

    @classmethod
    def of(cls, x):
        """A copy of an array of NumPy, with its strides. The array holds its elements without gaps."""
        array = cls(x.shape, x.dtype, [stride // x.itemsize for stride in x.strides])
        if x.size:
            first = x.__array_interface__["data"][0]
            check(driver.cuMemcpyHtoD(array.pointer, first, array.bytes))
        return array

    def numpy(self):
        host = numpy.empty(self.bytes // self.dtype.itemsize, self.dtype)
        check(driver.cuMemcpyDtoH(host.ctypes.data, self.pointer, self.bytes))
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return numpy.lib.stride_tricks.as_strided(host, self.shape, strides)

    def free(self):
        check(driver.cuMemFree(self.pointer))

    def __array_namespace__(self):
        return Namespace

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self):
        number, axes = next(numbers), len(self.shape)
        shape, strides = ((ctypes.c_int64 * axes)(*list) for list in (self.shape, self.strides))
        at = ctypes.addressof(shape), ctypes.addressof(strides)
        kind = KINDS[self.dtype.kind], 8 * self.dtype.itemsize, 1
        of_both = self.pointer, 2, self.device, axes, *kind, *at, 0
        if self.is_read_only:
            tensor = Versioned(1, 0, number, give_back_versioned, READ_ONLY, *of_both)
        else:
            tensor = Tensor(*of_both, number, give_back)
        lent[number] = tensor, shape, strides
        name = b"dltensor_versioned" if self.is_read_only else b"dltensor"
        return new_capsule(ctypes.addressof(tensor), name, None)


class Namespace:
    float32 = numpy.float32

    @staticmethod
    def empty(shape, *, dtype, device):
        return Array(shape, dtype)

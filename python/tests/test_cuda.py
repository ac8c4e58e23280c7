"""CUDA tensors, on whichever driver this process loads: NVIDIA's, or the simulated one of cuda-sim/libcuda."""

import gc
import subprocess
import sys

import numpy
import pytest
import reference
from attention_kernels import _native, attention, flash_attn_with_kvcache
from numpy.testing import assert_allclose

driver = pytest.importorskip("cuda.bindings.driver")
try:
    found = driver.cuInit(0)[0] == 0 and driver.cuDeviceGetCount()[1] > 0
except RuntimeError:  # there is no libcuda.so.1
    found = False
if not found:
    pytest.skip("there is no CUDA driver with a device", allow_module_level=True)

import cuda_array  # noqa: E402
from cuda_array import Array, check  # noqa: E402

OPTIONS = [
    {},
    {"causal": True, "scale": 0.2},
    {"window": (10, 3)},
    {"key_lengths": [100, 5]},
    {"mask": numpy.random.default_rng(1).standard_normal((1, 4, 33, 100), numpy.float32)},
    {"blocks": numpy.array([[[[False, True]]]])},
    {"dropout_p": 0.3, "seed": 3},
]
PLAIN = {"causal": False, "scale": None, "window": None, "key_lengths": None, "mask": None, "blocks": None, "dropout": None}


@pytest.fixture(scope="module", autouse=True)
def context():
    cuda_array.open_device()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_options(options):
    tensors = reference.problem(2, 4, 2, 33, 100, 40)
    o, lse = attention(*map(Array.of, tensors), return_lse=True, **options)
    expected_o, expected_lse = attention(*tensors, return_lse=True, **options)
    assert type(o) is Array and lse.dtype == numpy.float32
    assert_allclose(o.numpy(), expected_o, rtol=0, atol=1e-5)
    assert_allclose(lse.numpy(), expected_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype, atol", [("float32", 1e-5), ("float16", 4e-3)])
@pytest.mark.parametrize("shape", reference.SHAPES + reference.EMPTY, ids=str)
def test_shapes(shape, dtype, atol):
    tensors = [x.astype(dtype) for x in reference.problem(*shape)]
    o = attention(*map(Array.of, tensors), causal=True)
    assert o.shape == tensors[0].shape and o.dtype == dtype
    expected = attention(*(x.astype(numpy.float32) for x in tensors), causal=True)
    assert_allclose(o.numpy(), expected, rtol=0, atol=atol)


def test_layouts_without_a_copy():
    q, k, v = reference.problem(2, 4, 2, 100, 150, 32)
    expected = attention(q, k, v)
    for swap in (lambda x: x.swapaxes(1, 2).copy().swapaxes(1, 2), lambda x: x.swapaxes(0, 1).copy().swapaxes(0, 1)):
        o = attention(*(Array.of(swap(x)) for x in (q, k, v)))
        assert_allclose(o.numpy(), expected, rtol=0, atol=1e-5)
    one = numpy.broadcast_to(k[:1, :1], k.shape)
    device_k = Array(k.shape, k.dtype, [0, 0, 32, 1])
    check(driver.cuMemcpyHtoD(device_k.pointer, k.ctypes.data, device_k.bytes))
    assert_allclose(attention(Array.of(q), device_k, Array.of(v)).numpy(), attention(q, one, v), rtol=0, atol=1e-5)


def test_gradients():
    q, k, v = reference.problem(2, 4, 2, 33, 70, 40)
    options = _native.Options(**{**PLAIN, "causal": True})
    o, lse = map(numpy.from_dlpack, _native.cpu_forward(q, k, v, options))
    d_o = numpy.random.default_rng(2).standard_normal(o.shape, numpy.float32)
    expected = map(numpy.from_dlpack, _native.cpu_backward(q, k, v, options, o, lse, d_o))
    gradients = [Array(x.shape, x.dtype) for x in (q, k, v)]
    tensors = [Array.of(x) for x in (q, k, v, o, lse, d_o)]
    _native.cuda_backward(*tensors[:3], options, *tensors[3:], *gradients, 0)
    for gradient, exact in zip(gradients, expected):
        assert_allclose(gradient.numpy(), exact, rtol=0, atol=1e-4)


def test_the_given_stream():
    """A stream that captures records the launch, which runs when the graph does: nothing else is launched, and nothing waits."""
    tensors = reference.problem(1, 2, 2, 40, 40, 32)
    q, k, v = map(Array.of, tensors)
    o, lse = Array(q.shape, q.dtype), Array(q.shape[:3], q.dtype)
    options = _native.Options(**PLAIN)
    _native.cuda_forward(q, k, v, options, o, lse, 0)  # loads the kernel
    check(driver.cuMemsetD8(o.pointer, 0, o.bytes))
    stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    _native.cuda_forward(q, k, v, options, o, lse, int(stream))
    graph = check(driver.cuStreamEndCapture(stream))
    assert (o.numpy() == 0).all()
    check(driver.cuGraphLaunch(check(driver.cuGraphInstantiate(graph, 0)), stream))
    check(driver.cuStreamSynchronize(stream))
    assert_allclose(o.numpy(), attention(*tensors), rtol=0, atol=1e-5)


def test_a_tensor_that_another_stream_writes():
    """Work of the given stream waits for that stream, as an event says."""
    host = reference.problem(1, 2, 2, 40, 40, 32)
    q, k, v = (Array(x.shape, x.dtype) for x in host)
    o, lse = Array(q.shape, q.dtype), Array(q.shape[:3], q.dtype)
    writes, reads = (check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2))
    for array, x in zip((q, k, v), host):
        check(driver.cuMemcpyHtoDAsync(array.pointer, x.ctypes.data, x.nbytes, writes))
    event = check(driver.cuEventCreate(0))
    check(driver.cuEventRecord(event, writes))
    check(driver.cuStreamWaitEvent(reads, event, 0))
    _native.cuda_forward(q, k, v, _native.Options(**PLAIN), o, lse, int(reads))
    check(driver.cuStreamSynchronize(reads))
    assert_allclose(o.numpy(), attention(*host), rtol=0, atol=1e-5)


@pytest.mark.parametrize("current", [True, False])
def test_the_current_context_stays(current):
    primary = check(driver.cuCtxGetCurrent())
    q, k, v = (Array.of(x) for x in reference.problem(1, 1, 1, 4, 4, 8))
    o, lse = Array(q.shape, q.dtype), Array(q.shape[:3], q.dtype)
    try:
        if not current:
            check(driver.cuCtxSetCurrent(0))
        before = int(check(driver.cuCtxGetCurrent()))
        _native.cuda_forward(q, k, v, _native.Options(**PLAIN), o, lse, 0)
        assert int(check(driver.cuCtxGetCurrent())) == before
    finally:
        check(driver.cuCtxSetCurrent(primary))


def test_capsules_are_given_back():
    attention(*map(Array.of, reference.problem(1, 1, 1, 4, 4, 8)))
    gc.collect()
    assert not cuda_array.lent


def refused(error, match, *tensors, **options):
    with pytest.raises(error, match=match):
        attention(*tensors, **options)
    assert not cuda_array.lent


def test_refusals():
    host = reference.problem(1, 2, 2, 10, 10, 8)
    q, k, v = map(Array.of, host)
    refused(ValueError, "`k` is on the CPU, expected a CUDA device", q, host[1], v)
    refused(ValueError, "`k` is on CUDA device 0, expected the CPU", host[0], k, host[2])
    refused(ValueError, "`q` is on CUDA device 0, expected the CPU", q, k, v, device="cpu")
    refused(ValueError, "`q` is on CUDA device 0, expected the CPU", q, k, v, device="sim")
    refused(TypeError, "`v` is float16, expected float32", q, k, Array.of(host[2].astype(numpy.float16)))
    refused(TypeError, "`q` is int32, expected float32, float16 or bfloat16", Array.of(host[0].astype(numpy.int32)), k, v)
    refused(ValueError, "`k` has shape", q, Array.of(host[1][:, :, :, :4].copy()), v)
    refused(ValueError, "`q` has 3 axes", Array.of(host[0][0]), k, v)
    refused(ValueError, "`v` has a stride of 10 in its last axis", q, k, Array.of(host[2].swapaxes(2, 3).copy().swapaxes(2, 3)))
    refused(ValueError, "`mask` is on CUDA device 0, expected the CPU", q, k, v, mask=Array((1, 1, 10, 10), "float32"))
    other = Array.of(host[1])
    other.device = 7
    refused(ValueError, "`k` is on CUDA device 7", q, other, v)
    with pytest.raises(NotImplementedError, match="`q` is on a CUDA device"):
        flash_attn_with_kvcache(*(Array.of(x.swapaxes(1, 2).copy()) for x in host))


@pytest.mark.parametrize("flaw", ["is read-only", "has a stride of 0"])
@pytest.mark.parametrize("argument", ["o", "lse", "dq", "dk", "dv"])
def test_results_that_cannot_be_written(argument, flaw):
    q, k, v = map(Array.of, reference.problem(2, 2, 2, 10, 10, 8))
    o, d_o, dq, dk, dv = (Array(q.shape, q.dtype) for _ in range(5))
    lse = Array(q.shape[:3], q.dtype)
    flawed = {"o": o, "lse": lse, "dq": dq, "dk": dk, "dv": dv}[argument]
    if flaw == "is read-only":
        flawed.is_read_only = True
    else:
        flawed.strides = (0, *flawed.strides[1:])
    options = _native.Options(**PLAIN)
    with pytest.raises(ValueError, match=f"`{argument}` {flaw}"):
        if flawed is o or flawed is lse:
            _native.cuda_forward(q, k, v, options, o, lse, 0)
        else:
            _native.cuda_backward(q, k, v, options, o, lse, d_o, dq, dk, dv, 0)
    assert not cuda_array.lent


def test_inputs_may_be_read_only_and_broadcast():
    host = reference.problem(1, 2, 2, 10, 10, 8)
    tensors = [Array.of(x) for x in host]
    tensors[0].is_read_only = True
    assert_allclose(attention(*tensors).numpy(), attention(*host), rtol=0, atol=1e-5)


def test_a_freed_tensor():
    q, k, v = map(Array.of, reference.problem(1, 2, 2, 10, 10, 8))
    k.free()
    refused(ValueError, "`k`.*was it freed", q, k, v)


def test_a_process_has_one_driver():
    host = reference.problem(1, 1, 1, 4, 4, 8)
    attention(*map(Array.of, host))
    with pytest.raises(RuntimeError, match='`device` is "sim", but this process has used CUDA tensors'):
        attention(*host, device="sim")
    after_sim = """
import cuda_array, reference
from attention_kernels import attention
cuda_array.open_device()
host = reference.problem(1, 1, 1, 4, 4, 8)
attention(*host, device="sim")
attention(*map(cuda_array.Array.of, host))
"""
    ran = subprocess.run([sys.executable, "-c", after_sim], capture_output=True, text=True)
    assert "ValueError: `q` is no memory of the driver that this process computes with" in ran.stderr

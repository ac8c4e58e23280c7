"""The kernels on the simulated device against the CPU."""

import os
import subprocess
import sys

import numpy
import pytest
import reference
from attention_kernels import attention
from numpy.testing import assert_allclose

SHAPES = [
    # B, H, H_kv, nq, nk, D
    (1, 1, 1, 1, 1, 16),
    (1, 2, 1, 65, 70, 64),
    (2, 2, 2, 33, 100, 40),
]

OPTIONS = [
    {},
    {"causal": True},
    {"scale": 0.3, "window": (10, 3)},
    {"key_lengths": [100, 5]},
    {"mask": numpy.random.default_rng(1).standard_normal((1, 2, 33, 100), numpy.float32)},
    {"blocks": numpy.array([[[[False, True]]]])},
    {"dropout_p": 0.3, "seed": 3},
]


def check(tensors, atol, **options):
    o, lse = attention(*tensors, return_lse=True, device="sim", **options)
    float32 = [x.astype(numpy.float32) for x in tensors]
    expected_o, expected_lse = attention(*float32, return_lse=True, **options)
    assert o.dtype == tensors[0].dtype and lse.dtype == numpy.float32
    assert_allclose(o, expected_o, rtol=0, atol=atol)
    assert_allclose(lse, expected_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES + reference.EMPTY, ids=str)
def test_float32(shape):
    check(reference.problem(*shape), 1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_options(options):
    check(reference.problem(2, 2, 2, 33, 100, 40), 1e-5, **options)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float16(shape):
    check([x.astype(numpy.float16) for x in reference.problem(*shape)], 4e-3, causal=True)


def test_profile():
    q, k, v = reference.problem(1, 2, 2, 64, 128, 64)
    o, profile = attention(q, k, v, device="sim", return_profile=True)
    assert_allclose(o, attention(q, k, v), atol=1e-5)
    (launch,) = profile["launches"]
    figures = launch["figures"]
    assert launch["device"] == "h100" and profile["seconds"] == figures["time"]["value"] > 0
    products = 4 * 2 * 64 * 128 * 64
    assert products <= figures["flops_f32"]["value"] <= 1.2 * products
    assert figures["shared_load_conflicts"]["value"] == 0
    assert any(line["file"].endswith("attention.cu") for line in launch["lines"])
    o, lse, again = attention(q, k, v, device="sim", return_lse=True, return_profile=True)
    assert lse.shape == (1, 2, 64) and again == profile


def test_refusals():
    q, k, v = reference.problem(1, 2, 2, 8, 8, 16)
    for error, match, tensors, options in [
        (TypeError, "`q` is float64, expected float32, float16 or bfloat16", (q.astype("float64"), k, v), {}),
        (TypeError, "`k` is float32, expected float16", (q.astype("float16"), k, v), {}),
        (ValueError, "`v`", (q, k, v[:, :, :4]), {}),
        (ValueError, "`scale`", (q, k, v), {"scale": float("inf")}),
        (ValueError, "`key_lengths", (q, k, v), {"key_lengths": [9]}),
    ]:
        with pytest.raises(error, match=match):
            attention(*tensors, device="sim", **options)


def test_torch():
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x) for x in reference.problem(1, 2, 1, 40, 40, 64)]
    bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}
    for dtype, atol in bound.items():
        grads = []
        for device, kind in [("cpu", torch.float32), ("sim", dtype)]:
            q, k, v = (x.to(dtype).to(kind, copy=True).requires_grad_() for x in tensors)
            o, lse = attention(q, k, v, causal=True, device=device, return_lse=True)
            assert o.dtype == kind and lse.dtype == torch.float32
            o.float().square().sum().backward()
            grads.append([o.detach().float(), *(x.grad.float() for x in (q, k, v))])
        torch.testing.assert_close(*grads, rtol=10 * atol, atol=10 * atol)
    assert not torch.cuda.is_available()


def run(program, **environment):
    """Runs a program in a process of its own, as settings of the simulator are read once."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


FAULT = """
import numpy, attention_kernels
x = numpy.ones((1, 1, 64, 64), numpy.float32)
for _ in range(2):
    try:
        attention_kernels.attention(x, x, x, device="sim")
    except attention_kernels.DeviceError as error:
        print(type(error).__name__, error)
"""


def test_a_fault_is_an_exception():
    """A kernel that runs longer than the simulator is told to let it."""
    ran = run(FAULT, CUDA_SIM_BUDGET="100")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("DeviceError CUDA_ERROR") == 2
    assert "kernel  attention\n" in ran.stdout and ".cu" in ran.stdout


def test_too_little_memory_is_an_exception():
    ran = run(FAULT.replace("64, 64", "4096, 256"), CUDA_SIM_MEMORY="8")
    assert ran.stdout.count("DeviceError CUDA_ERROR_OUT_OF_MEMORY") == 2, ran.stdout + ran.stderr


FORK = """
import numpy, os, attention_kernels
x = numpy.ones((1, 1, 4, 16), numpy.float32)
attention_kernels.attention(x, x, x, device="sim")
if os.fork() == 0:
    try:
        attention_kernels.attention(x, x, x, device="sim")
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_child_is_told():
    assert "forked" in run(FORK).stdout

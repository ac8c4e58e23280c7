"""`torch.autograd.gradcheck` on the CPU and on the simulated device.

gradcheck wants float64, and the kernels compute in float32, so a call here rounds its float64 tensors. With a step of 2^-6 the
differences of float32 results, which are about 2^-22 off, give slopes that are 2^-15 = 3e-5 off; the third derivative adds as
much. The tolerances are ten times that. Threads and blocks add to dq in any order, so runs may differ by rounding.
"""

import pytest

torch = pytest.importorskip("torch")

from attention_kernels import attention  # noqa: E402
from torch.autograd.gradcheck import GradcheckError  # noqa: E402

STEP = {"eps": 2.0**-6, "atol": 6e-4, "rtol": 2e-3, "nondet_tol": 1e-5}


def rounded(**options):
    def call(q, k, v):
        return attention(q.float(), k.float(), v.float(), **options).double()

    return call


def problem(heads, kv_heads, nq, nk, d):
    torch.manual_seed(5)
    shapes = [(1, heads, nq, d), (1, kv_heads, nk, d), (1, kv_heads, nk, d)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"window": (1, 1), "scale": 0.7},
        {"key_lengths": [3]},
        {"dropout_p": 0.3, "seed": 7},
    ],
    ids=lambda options: "-".join(options) or "none",
)
def test_gradcheck(device, options):
    assert torch.autograd.gradcheck(rounded(device=device, **options), problem(2, 1, 3, 5, 4), **STEP)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradcheck_finds_a_gradient_that_is_2_percent_off(which):
    class Wrong(torch.autograd.Function):
        """The identity, with a gradient that is too large."""

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return 1.02 * gradient

    def call(*tensors):
        tensors = [Wrong.apply(x) if i == which else x for i, x in enumerate(tensors)]
        return rounded()(*tensors)

    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(call, problem(2, 1, 3, 5, 4), **STEP)

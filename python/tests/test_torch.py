"""Results and gradients on tensors of PyTorch, beside its own attention.

The bound is a multiple of PyTorch's own error: both float32 results are compared with PyTorch's in float64.
"""

import numpy
import pytest
import reference
from attention_kernels import attention, flash_attn_func

torch = pytest.importorskip("torch")
sdpa = torch.nn.functional.scaled_dot_product_attention


def problem(*sizes):
    return [torch.from_numpy(x) for x in reference.problem(*sizes)]


def seen(q, k, **options):
    """The keys that a query sees, as PyTorch's `attn_mask`. Its own causal mask begins top-left, ours ends bottom-right."""
    return torch.from_numpy(reference.seen(q.shape[0], q.shape[2], k.shape[2], **options))


def close(ours, torchs, exact, what):
    """True if our error is at most twice that of PyTorch, and 1e-6."""
    error, torchs_error = ((x.double() - exact).abs().max().item() for x in (ours, torchs))
    assert error <= 2 * torchs_error + 1e-6, f"{what}: {error} beside {torchs_error}"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", reference.SHAPES, ids=str)
def test_forward_and_backward(shape, causal):
    tensors = problem(*shape)
    mask = seen(*tensors[:2], causal=causal)
    d_o = torch.randn(tensors[0].shape, generator=torch.Generator().manual_seed(1))
    sees = mask.any(-1, keepdim=True)  # PyTorch's gradients of rows that see nothing are left out

    def run(dtype, function):
        q, k, v = (x.to(dtype, copy=True).requires_grad_() for x in tensors)
        o = function(q, k, v)
        (o * d_o * sees).sum().backward()
        return o.detach() * sees, q.grad, k.grad, v.grad

    ours = run(torch.float32, lambda q, k, v: attention(q, k, v, causal=causal))
    theirs = run(torch.float32, lambda q, k, v: sdpa(q, k, v, mask, enable_gqa=True))
    exact = run(torch.float64, lambda q, k, v: sdpa(q, k, v, mask, enable_gqa=True))
    for what, *results in zip(("o", "dq", "dk", "dv"), ours, theirs, exact):
        assert results[0].dtype == torch.float32
        close(*results, what)


@pytest.mark.parametrize("shape", reference.EMPTY, ids=str)
def test_empty(shape):
    q, k, v = (x.requires_grad_() for x in problem(*shape))
    o = attention(q, k, v)
    o.sum().backward()
    assert o.shape == q.shape and (o == 0).all()
    for x in (q, k, v):
        assert x.grad.shape == x.shape and (x.grad == 0).all()


OPTIONS = [
    {"window": (10, 0)},
    {"key_lengths": [150, 1]},
    {"blocks": numpy.array([[[[1, 0, 1], [0, 1, 0]]]], bool)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradients_of_options(options):
    tensors = problem(2, 4, 2, 100, 150, 32)
    mask = seen(*tensors[:2], **options)
    results = []
    for dtype, function in [
        (torch.float32, lambda q, k, v: attention(q, k, v, **options)),
        (torch.float32, lambda q, k, v: sdpa(q, k, v, mask, enable_gqa=True)),
        (torch.float64, lambda q, k, v: sdpa(q, k, v, mask, enable_gqa=True)),
    ]:
        q, k, v = (x.to(dtype, copy=True).requires_grad_() for x in tensors)
        function(q, k, v).square().sum().backward()
        results.append((q.grad, k.grad, v.grad))
    for what, *gradients in zip(("dq", "dk", "dv"), *results):
        close(*gradients, what)


def test_gradient_is_the_slope():
    """`torch.autograd.gradcheck` in float32, along random directions: stage 3 has no float64."""
    torch.manual_seed(2)
    q, k, v = (x.requires_grad_() for x in problem(1, 2, 1, 5, 7, 8))
    direction = torch.randn(1, 2, 5, 8)
    options = {"dropout_p": 0.3, "seed": 4, "causal": True}

    def loss():
        return (attention(q, k, v, **options) * direction).double().sum()

    loss().backward()
    for x in (q, k, v):
        step = torch.randn_like(x)
        step *= 0.01 / step.norm()
        slope = (x.grad * step).sum().item()
        with torch.no_grad():
            x += step
            above = loss().item()
            x -= 2 * step
            below = loss().item()
            x += step
        assert abs((above - below) / 2 - slope) <= 2e-3 * abs(slope) + 2e-6


def test_mask_as_sdpa_has_it():
    q, k, v = problem(2, 4, 4, 100, 150, 32)
    mask = torch.randn(1, 4, 100, 150)
    exact = sdpa(q.double(), k.double(), v.double(), mask.double())
    close(attention(q, k, v, mask=mask), sdpa(q, k, v, mask), exact, "o")
    shown = torch.zeros(1, 1, 2, 3, dtype=torch.bool)
    shown[..., 0] = True
    torch.testing.assert_close(attention(q, k, v, blocks=shown), attention(q, k[:, :, :64], v[:, :, :64]))


def test_returns_tensors():
    q, k, v = problem(1, 2, 2, 10, 10, 8)
    o, lse = attention(q, k, v, return_lse=True)
    assert isinstance(o, torch.Tensor) and o.is_contiguous() and not o.requires_grad
    assert lse.shape == (1, 2, 10)
    q.requires_grad_()
    o, lse = attention(q, k, v, return_lse=True)
    assert o.requires_grad and not lse.requires_grad
    with torch.no_grad():
        assert not attention(q, k, v).requires_grad
    o.add_(1)  # its memory is the caller's
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.sum().backward()


def test_any_layout():
    q, k, v = problem(2, 4, 2, 100, 150, 32)
    expected = attention(q, k, v)
    fused = torch.randn(2, 150, 2, 2, 32)
    fused[:, :, 0], fused[:, :, 1] = k.transpose(1, 2), v.transpose(1, 2)
    k, v = (x.transpose(1, 2) for x in fused.unbind(2))
    torch.testing.assert_close(attention(q, k, v), expected)
    one = k[:1, :1].expand(2, 4, -1, -1)
    torch.testing.assert_close(attention(q, one, one), attention(q, one.contiguous(), one.contiguous()))


def test_an_expanded_gradient():
    q, k, v = (x.requires_grad_() for x in problem(1, 2, 2, 10, 10, 8))
    attention(q, k, v).sum().backward()  # its gradient has strides of 0
    exact = sdpa(*(x.detach().double().requires_grad_() for x in (q, k, v)))
    assert torch.isfinite(q.grad).all() and exact.shape == q.shape
    torch.testing.assert_close(v.grad.sum(), torch.tensor(160.0))


def test_lazy_negatives():
    q, k, v = problem(1, 2, 2, 10, 10, 8)
    negative = torch.complex(q, q).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(attention(negative, k, v), attention(-q, k, v))


@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_as_in_sdpa(where):
    tensors = dict(zip("qkv", problem(1, 1, 1, 10, 12, 8)))
    tensors[where][0, 0, 3, 2] = torch.nan
    ours, theirs = attention(**tensors), sdpa(*tensors.values())
    assert (ours.isnan() == theirs.isnan()).all()


def test_dropout_follows_the_generator():
    q, k, v = problem(1, 2, 2, 40, 50, 16)
    torch.manual_seed(1)
    first = attention(q, k, v, dropout_p=0.5)
    second = attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(1)
    assert (first != second).any() and (first == attention(q, k, v, dropout_p=0.5)).all()


def test_flash_attn_func_trains():
    q, k, v = problem(2, 4, 2, 60, 60, 32)
    q, k, v = (x.transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v))
    o = flash_attn_func(q, k, v, causal=True)
    assert o.shape == q.shape and o.is_contiguous()
    o.square().sum().backward()
    gradients = [x.grad.clone() for x in (q, k, v)]
    q.grad = k.grad = v.grad = None
    heads_first = (x.transpose(1, 2) for x in (q, k, v))
    sdpa(*heads_first, is_causal=True, enable_gqa=True).square().sum().backward()
    torch.testing.assert_close(gradients, [q.grad, k.grad, v.grad], rtol=1e-4, atol=1e-5)


def refused(error, match, q, k, v, **options):
    with pytest.raises(error, match=match):
        attention(q, k, v, **options)


def test_refusals():
    q, k, v = problem(1, 2, 2, 10, 10, 8)
    refused(TypeError, "`q` is float64", q.double(), k, v)
    refused(TypeError, "`k` is bfloat16, expected float32", q, k.bfloat16(), v)
    refused(TypeError, "`k` is .*ndarray.*, expected the type of `q`", q, k.numpy(), v)
    refused(TypeError, "`v` is .*Tensor.*, expected the type of `q`", q.numpy(), k.numpy(), v)
    refused(ValueError, "`q`", q.to("meta"), k, v)
    refused(ValueError, "`q` is on cpu, expected a CUDA device", q, k, v, device="cuda")
    refused(ValueError, "`q`", q.to_sparse(), k, v)
    refused(ValueError, "`q`", q[0].to_mkldnn(), k, v)
    huge = torch.zeros(1, 1, 1, 1).expand(1 << 31, 1 << 30, 1, 1)
    refused(ValueError, "`q`.*address space", huge, k, v)
    large = torch.zeros(1, 1, 1, 1).expand(1, 1, 1 << 40, 1)
    refused(MemoryError, "`q`", large, k[:, :1, :, :1], v[:, :1, :, :1])
    refused(MemoryError, "`k`", k, large, large, device="sim")
    refused(NotImplementedError, "`mask` requires a gradient", q, k, v, mask=torch.zeros(1, 1, 10, 10).requires_grad_())


def test_a_freed_tensor():
    q, k, v = (torch.zeros(1, 2, 10, 8) for _ in range(3))
    q.untyped_storage().resize_(0)
    refused(ValueError, "`q`.*(memory|storage)", q, k, v)


def test_no_second_derivative():
    q, k, v = (x.requires_grad_() for x in problem(1, 1, 1, 4, 4, 8))
    (gradient,) = torch.autograd.grad(attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        gradient.sum().backward()


def test_memory_is_given_back():
    import resource

    q, k, v = (x.requires_grad_() for x in problem(1, 8, 8, 200, 200, 64))

    def run(times):
        for _ in range(times):
            attention(q, k, v).sum().backward()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(10)
    assert run(50) < before + 30_000  # KiB; each run makes 1.6 MB of results

"""Wrong arguments: an exception that names the argument."""

import numpy
import pytest
import reference
from attention_kernels import attention, flash_attn_func

Q, K, V = reference.problem(2, 4, 2, 100, 150, 32)


def refused(error, name, *tensors, match="", **options):
    with pytest.raises(error, match=f"{name}.*{match}"):
        attention(*(tensors or (Q, K, V)), **options)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "complex64", "bool"])
def test_dtype(dtype):
    refused(TypeError, "`q`", Q.astype(dtype), K, V, match="expected float32")
    refused(TypeError, "`v`", Q, K, V.astype(dtype), match="expected float32")


def test_no_array():
    refused(TypeError, "`q`", [[1.0]], K, V, match="list")
    refused(TypeError, "`k`", Q, None, V)


def test_types_that_dlpack_lacks():
    refused(ValueError, "`q`", Q.astype(">f4"), K, V)
    refused(ValueError, "`k`", Q, K.astype(object), V)


def test_shapes():
    refused(ValueError, "`q`", Q[0], K, V, match="3 axes, expected 4")
    refused(ValueError, "`k`", Q, K[:, :, :, :16], V)
    refused(ValueError, "`k`", Q, K[:1], V)
    refused(ValueError, "`v`", Q, K, V[:, :, :10])
    refused(ValueError, "`q` has 3 heads", Q[:, :3], K, V)
    refused(ValueError, "`q`", Q[..., :0], K[..., :0], V[..., :0], match="head dimension")
    big = numpy.zeros((1, 1, 3, 300), numpy.float32)
    refused(ValueError, "`q`", big, big, big, match="1 to 256")


def test_unaligned():
    bytes = numpy.zeros(4 * 64 + 1, numpy.uint8)
    refused(ValueError, "`q`", bytes[1:].view(numpy.float32).reshape(1, 1, 8, 8), K, V)


def test_options():
    refused(ValueError, "`device`", device="gpu")
    refused(ValueError, "`q`", device="cuda", match="CUDA device")
    refused(ValueError, "`return_profile`", return_profile=True)
    refused(ValueError, "`scale`", scale=float("nan"))
    refused(TypeError, "'scale'", scale="large")
    refused(TypeError, "`window`", window=5)
    refused(ValueError, "`window`", window=(-1, 0))
    refused(TypeError, "`window`", window=(1.5, 0))
    refused(ValueError, "`key_lengths`", key_lengths=[1])
    refused(ValueError, "`key_lengths.1.`", key_lengths=[1, 151])
    refused(ValueError, "`key_lengths`", key_lengths=[1, -1])
    refused(TypeError, "`key_lengths`", key_lengths=[1, 1.5])
    refused(ValueError, "`mask`", mask=numpy.zeros((1, 1, 100, 149), numpy.float32))
    refused(ValueError, "`mask`", mask=numpy.zeros((100, 150), numpy.float32), match="2 axes")
    refused(TypeError, "`mask`", mask=numpy.zeros((1, 1, 100, 150)))
    refused(TypeError, "`blocks`", blocks=numpy.zeros((1, 1, 2, 3)))
    refused(ValueError, "`blocks`", blocks=numpy.zeros((1, 1, 3, 3), bool))
    refused(ValueError, "`dropout`", dropout_p=1.0, seed=0)
    refused(ValueError, "`dropout`", dropout_p=-0.5, seed=0)
    refused(ValueError, "`seed`", dropout_p=0.5, seed=-1)
    refused(ValueError, "`seed`", dropout_p=0.5, seed=1 << 64)
    refused(TypeError, "caus", causl=True)


@pytest.mark.parametrize(
    "options",
    [
        {"softcap": 1.0},
        {"alibi_slopes": numpy.ones(4, numpy.float32)},
        {"deterministic": True},
        {"return_attn_probs": True, "dropout_p": 0.5},
    ],
    ids=str,
)
def test_what_flash_attn_func_lacks(options):
    x = numpy.zeros((1, 8, 4, 8), numpy.float32)
    with pytest.raises(NotImplementedError, match=f"`{next(iter(options))}`"):
        flash_attn_func(x, x, x, **options)


def test_a_capsule_is_read_once():
    class Greedy:
        """Gives the same capsule each time."""

        def __init__(self, x):
            self.capsule = x.__dlpack__()

        def __dlpack__(self):
            return self.capsule

    greedy = Greedy(Q)
    attention(greedy, K, V)
    refused(TypeError, "`q`", greedy, K, V, match="without a DLPack tensor")

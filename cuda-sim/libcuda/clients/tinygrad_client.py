"""tinygrad's CUDA backend: arithmetic, a convolution, training steps, and its JIT, which builds CUDA graphs."""

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn

assert Device.DEFAULT == "CUDA", Device.DEFAULT

rng = np.random.default_rng(1)
a, b = rng.standard_normal((33, 17), np.float32), rng.standard_normal((17, 21), np.float32)
np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(Tensor(a).softmax(1).numpy().sum(1), np.ones(33), rtol=1e-6)
half = Tensor(a).cast(dtypes.float16).exp().sum().cast(dtypes.float32).item()
np.testing.assert_allclose(half, np.exp(a.astype(np.float16).astype(np.float32)).sum(), rtol=1e-2)


class Net:
    def __init__(self):
        self.convolution, self.linear = nn.Conv2d(1, 4, 3), nn.Linear(4 * 6 * 6, 3)

    def __call__(self, x):
        return self.linear(self.convolution(x).relu().flatten(1))


Tensor.manual_seed(1)
net = Net()
optimiser = nn.optim.SGD(nn.state.get_parameters(net), lr=0.5)
labels = np.arange(12) % 3
images = rng.standard_normal((12, 1, 8, 8), np.float32) * 0.1
images[np.arange(12), 0, labels * 2, :] += 1.0  # a row tells the class
x, y = Tensor(images).realize(), Tensor(labels.astype(np.int32)).realize()


@TinyJit
def step():
    with Context(TRAINING=1):
        optimiser.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        optimiser.step()
        return loss.realize()


# From the third call on, the JIT launches a graph.
losses = [step().item() for _ in range(8)]
assert losses[-1] < 0.5 * losses[0], losses


@TinyJit
def scaled(t):
    return (t * 2 + 1).sum(1).realize()


# Each call has another input, so the nodes of the graph get other parameters.
for n in range(5):
    t = Tensor.full((4, 8), float(n)).contiguous().realize()
    np.testing.assert_equal(scaled(t).numpy(), np.full(4, 8 * (2 * n + 1), np.float32))

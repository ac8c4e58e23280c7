"""`torch.compile` traces a module that calls `attention`, without a break of its graph."""

import shutil

import pytest

torch = pytest.importorskip("torch")

from attention_kernels import attention, operators  # noqa: E402

BACKEND = "aot_eager"  # traces both passes with fake tensors; Inductor, behind it, needs a C++ compiler


class Block(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options
        self.project = torch.nn.Linear(32, 3 * 32)
        self.out = torch.nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, 8)).transpose(1, 2) for y in self.project(x).chunk(3, -1))
        return self.out(attention(q, k, v, **self.options).transpose(1, 2).flatten(-2))


OPTIONS = [
    {},
    {"causal": True, "scale": 0.3},
    {"window": (3, None), "key_lengths": [10, 4]},
    {"mask": torch.randn(1, 4, 10, 10)},
    {"blocks": torch.zeros(2, 1, 1, 1, dtype=torch.bool)},
    {"dropout_p": 0.4, "seed": (1 << 64) - 1},
    {"device": "sim", "causal": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_a_compiled_module_is_the_eager_one(options):
    compare(options, BACKEND)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_a_graph_has_no_profile():
    q = torch.randn(1, 1, 3, 4)
    profiled = torch.compile(lambda q: attention(q, q, q, device="sim", return_profile=True), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="return_profile"):
        profiled(q)


def test_inductor():
    compare({"causal": True}, "inductor")


def compare(options, backend):
    torch.manual_seed(0)
    module = Block(**options)
    x = torch.randn(2, 10, 32)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    results = []
    for run in (compiled, module):
        module.zero_grad()
        loss = run(x).square().sum()
        loss.backward()
        results.append([loss, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_a_seed_is_drawn_in_each_run():
    x = torch.randn(1, 4, 10, 8)
    compiled = torch.compile(lambda x: attention(x, x, x, dropout_p=0.5), fullgraph=True, backend=BACKEND)
    torch.manual_seed(3)
    runs = [compiled(x) for _ in range(2)]
    torch.manual_seed(3)
    assert (runs[0] != runs[1]).any() and (compiled(x) == runs[0]).all()


def test_the_graph_has_the_operator():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    x = torch.randn(1, 4, 10, 8)
    torch.compile(lambda x: attention(x, x, x) + 1, fullgraph=True, backend=backend)(x)
    (graph,) = graphs
    assert "attention_kernels.attention" in graph.code


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_operators_keep_pytorchs_rules(options):
    """Schema, fake results and registration of gradients, by PyTorch's own test."""
    q, k, v = (torch.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
    plain = {"causal": False, "scale": None, "window": None, "key_lengths": None, "mask": None, "blocks": None, "dropout": None}
    seed = {"dropout": (options["dropout_p"], options["seed"])} if "seed" in options else {}
    chosen = {name: value for name, value in options.items() if name in plain}
    flat = operators.flat({**plain, **chosen, **seed})
    torch.library.opcheck(torch.ops.attention_kernels.attention, (q, k, v, *flat, options.get("device", "cpu")))

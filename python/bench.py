#!/usr/bin/env python3
"""Times `attention` beside PyTorch's `scaled_dot_product_attention` on this machine's CPU.

    python bench.py [--rounds N]        in an environment with the package and PyTorch

In every round each side runs once, in turns, forward and then forward with backward. Results agree before anything is timed.
A ratio is PyTorch's time over ours: above 1 ours is faster. The median is over the ratios of the rounds, so what else
happens on the machine meets both sides. PyTorch takes its own default kernel, with as many threads as ours has.
The last lines are the time of a call with almost nothing to compute.
"""

import argparse
import os
import statistics
import time

import numpy
import torch
from attention_kernels import attention

SHAPES = [(1, 8, 2048, 64), (4, 12, 512, 64)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    threads = int(os.environ.get("RAYON_NUM_THREADS") or len(os.sched_getaffinity(0)))
    torch.set_num_threads(threads)
    print(f"torch {torch.__version__}, {threads} threads, {rounds} rounds; times in ms: the best, then the median")
    print(f"{'B H N D':14} {'mask':6} {'pass':8} {'ours':>15} {'PyTorch':>15} {'ratio of best':>13} {'median ratio':>12}")
    for shape in SHAPES:
        for causal in (False, True):
            compare(shape, causal, rounds)
    overhead()


def compare(shape, causal, rounds):
    torch.manual_seed(0)
    tensors = [torch.randn(shape) for _ in range(3)]
    wants_gradient = [x.clone().requires_grad_() for x in tensors]
    d_o = torch.randn(shape)

    def ours(q, k, v):
        return attention(q, k, v, causal=causal)

    def torchs(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def both(function):
        return torch.autograd.grad(function(*wants_gradient), wants_gradient, d_o)

    passes = {"forward": lambda function: function(*tensors), "both": both}
    for name, run in passes.items():
        torch.testing.assert_close(run(ours), run(torchs), rtol=1e-3, atol=1e-4)
        times = [[seconds(lambda: run(side)) for side in (ours, torchs)] for _ in range(rounds)]
        our, their = zip(*times)
        best = min(their) / min(our)
        median = statistics.median(theirs / ours for ours, theirs in times)
        columns = [f"{1e3 * min(side):7.1f} {1e3 * statistics.median(side):7.1f}" for side in (our, their)]
        sizes = " ".join(map(str, shape))
        print(f"{sizes:14} {'causal' if causal else 'full':6} {name:8} {columns[0]} {columns[1]} {best:13.2f} {median:12.2f}")


def overhead():
    x = torch.zeros(1, 1, 1, 1)
    array = numpy.zeros((1, 1, 1, 1), numpy.float32)
    calls = {
        "NumPy": lambda: attention(array, array, array),
        "PyTorch": lambda: attention(x, x, x),
        "PyTorch's own": lambda: torch.nn.functional.scaled_dot_product_attention(x, x, x),
    }
    print("a call on 1 1 1 1, in µs: the best of 50 averages of 200, then their median")
    for name, call in calls.items():
        averages = [seconds(lambda: [call() for _ in range(200)]) / 200 for _ in range(50)]
        print(f"{name:14} {1e6 * min(averages):7.1f} {1e6 * statistics.median(averages):7.1f}")


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.8.0"]
# ///
"""Times attention beside PyTorch's on a GPU: the four cases of the assignment, or half precision.

    uv run stage4-flash-cuda/bench/compare.py          (or python, where torch 2.8.0 is installed)
    uv run stage4-flash-cuda/bench/compare.py --half

The cases of the assignment are (B, N) = (4, 128) and (64, 4096), hidden 4096, 32 heads, with and without the causal mask; f32,
without TF32. `--json PATH` writes the figures. Our times are those of `cargo run -p stage4-flash-cuda --release -- bench`, on the
same GPU; `--program PATH` names that program where there is no cargo.

`--half` compares f16 with the flash backend of scaled_dot_product_attention: 4 sequences of 32 heads, D = 64 and 128, with
and without the causal mask, N from 2048 to 16384. Both sides run in turns, three times, and medians
count. PyTorch also writes the log-sum-exp of each row.

MultiheadAttention also multiplies by four weight matrices, and the fused kernel does not. So the four products are timed
alone, and their time is taken off; the speed-up is over what remains. The column `sdpa` is scaled_dot_product_attention alone.
MultiheadAttention runs as for inference, without weights as a result, and without its "fast path", which keeps all scores:
it then calls scaled_dot_product_attention itself. Before anything is timed, both ways to compute it have to agree. A time
is the median of `--rounds` rounds by the device's clock. What does not fit into memory is done in parts of the batch.

Without a GPU there is nothing to compare, and the script says so. `--device cpu` runs PyTorch's part of it at a small
size on the processor: it shows that the script works, and no more, because the other side would be modelled.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

WORKSPACE = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = [(4, 128), (64, 4096)]
HIDDEN, HEADS = 4096, 32
SMALL_CASES, SMALL_HIDDEN, SMALL_HEADS = [(2, 64), (3, 128)], 256, 4
HALF_BATCH, HALF_LENGTHS, TURNS = 4, [2048, 4096, 8192, 16384], 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--program", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path, metavar="PATH")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("skipped: there is no torch here; `uv run` fetches the version that this script wants")
    torch.set_float32_matmul_precision("highest")  # no TF32
    if arguments.half and arguments.device == "cpu":
        sys.exit("--half needs a GPU: the flash backend has no half precision on the processor")
    if arguments.device == "cpu":
        print(f"PyTorch {torch.__version__} on the processor, to see that this script works; no comparison")
        rows = torch_rows("cpu", SMALL_CASES, SMALL_HIDDEN, SMALL_HEADS, arguments.rounds)
        show(rows)
        device = "processor"
    elif not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU, so fused attention was not compared with MultiheadAttention.")
        print("`--device cpu` tries PyTorch's part of this script on the processor.")
        return
    else:
        device = torch.cuda.get_device_name()
        print(f"PyTorch {torch.__version__} on {device}")
        if arguments.half:
            rows = half_rows(arguments.program, arguments.rounds)
            show_half(rows)
        else:
            library = {(row["batch"], row["n"], row["causal"]): row["seconds"] for row in bench(arguments.program, ["--assignment"])}
            rows = torch_rows("cuda", CASES, HIDDEN, HEADS, arguments.rounds)
            for row in rows:
                row["library"] = library[row["batch"], row["n"], row["causal"]]
            show(rows)
    if arguments.json:
        report = {"device": device, "torch": torch.__version__, "seconds": rows}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def bench(program, flags):
    """The rows of the library's kernel in a bench; measured, or there is an error."""
    cargo = [os.environ.get("CARGO", "cargo"), "run", "--release", "-p", "stage4-flash-cuda", "--"]
    command = [program.resolve()] if program else cargo
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        command += ["bench", "--modes", "library", "--json", path, *flags]
        subprocess.run(command, check=True, cwd=WORKSPACE, env={**os.environ, "GPU": "cuda"})
        report = json.loads(path.read_text())
    assert report["measured_on_hardware"], "a modelled time must not stand beside a measured one"
    return report["rows"]


def half_rows(program, rounds):
    rows = []
    for dim in (64, 128):
        for causal in (False, True):
            flags = ["--f16", "--batch", HALF_BATCH, "--heads", HEADS, "--dim", dim, "--seq", ",".join(map(str, HALF_LENGTHS))]
            flags = [*map(str, flags), *(["--causal"] if causal else [])]
            taken = {n: {"library": [], "flash": []} for n in HALF_LENGTHS}
            for _ in range(TURNS):
                for row in bench(program, [*flags, "--runs", str(rounds)]):
                    taken[row["n"]]["library"].append(row["seconds"])
                for n in HALF_LENGTHS:
                    taken[n]["flash"].append(flash_seconds(n, dim, causal, rounds))
            for n, sides in taken.items():
                medians = {side: statistics.median(seconds) for side, seconds in sides.items()}
                rows.append({"batch": HALF_BATCH, "heads": HEADS, "n": n, "dim": dim, "dtype": "f16", "causal": causal, **medians})
    return rows


def flash_seconds(n, dim, causal, rounds):
    """Seconds of PyTorch's flash backend in f16; an error if it cannot take the case."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (torch.randn(HALF_BATCH, HEADS, n, dim, device="cuda", dtype=torch.float16) for _ in range(3))
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):

        def run():
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

        run()  # to warm up
        stops = [cuda_clock(run) for _ in range(rounds)]
        return statistics.median(stop() for stop in stops)


def torch_rows(device, cases, hidden, heads, rounds):
    import torch

    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(1)
    attention = torch.nn.MultiheadAttention(hidden, heads, bias=False, batch_first=True, device=device).eval()
    rows = []
    for batch, n in cases:
        for causal in (False, True):
            with torch.no_grad():
                seconds, part = in_parts(batch, lambda part: times(attention, part, n, causal, device, rounds))
            seconds = {side: time * batch / part for side, time in seconds.items()}
            rows.append({"batch": batch, "n": n, "causal": causal, "part": part, **seconds})
    return rows


def in_parts(batch, run):
    """What `run` gives for the largest part of the batch that fits into memory, and that part."""
    import torch

    part = batch
    while True:
        try:
            return run(part), part
        except torch.OutOfMemoryError:
            if part == 1:
                raise
        torch.cuda.empty_cache()
        part //= 2


def times(attention, batch, n, causal, device, rounds):
    """Seconds of MultiheadAttention, of its four projections, of its attention and of nothing but attention."""
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention

    hidden, heads = attention.embed_dim, attention.num_heads
    x = torch.randn(batch, n, hidden, device=device)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(n, device=device) if causal else None

    def whole():
        return attention(x, x, x, attn_mask=mask, is_causal=causal, need_weights=False)[0]

    def split(packed):
        return [part.view(batch, n, heads, hidden // heads).transpose(1, 2) for part in packed.chunk(3, dim=-1)]

    def projections(o=x):
        return linear(x, attention.in_proj_weight), attention.out_proj(o)

    q, k, v = (part.contiguous() for part in split(projections()[0]))

    def sdpa():
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    # MultiheadAttention is its projections and this attention, and nothing else.
    o = sdpa().transpose(1, 2).reshape(batch, n, hidden)
    difference = (projections(o)[1] - whole()).abs().max().item()
    assert difference < 1e-4, f"(B, N) = ({batch}, {n}): the results differ by {difference}"
    del o

    sides = {"multihead": whole, "projections": projections, "sdpa": sdpa}
    clock = cuda_clock if device == "cuda" else cpu_clock
    taken = {side: [] for side in sides}
    for _ in range(rounds):  # in turns, so that what else happens on the machine happens to all
        for side, run in sides.items():
            taken[side].append(clock(run))
    return {side: statistics.median(stop() for stop in stops) for side, stops in taken.items()}


def cuda_clock(run):
    """Queues a run; the result is a function that waits for it and gives its seconds.

    As on the other side, nobody waits between runs, so that the host prepares one while another runs.
    """
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()

    def seconds():
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    return seconds


def cpu_clock(run):
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    return lambda: seconds


def show_half(rows):
    """The table of half precision; FLOPs of the two products of the scores that are seen."""
    print(f"{'D':>4} {'N':>6} {'causal':>6} {'flash ms':>9} {'TFLOP/s':>8} {'library ms':>10} {'TFLOP/s':>8}  library's speed over flash's")
    for row in rows:
        flops = 4 * row["batch"] * row["heads"] * row["n"] ** 2 * row["dim"] / (2 if row["causal"] else 1)
        figures = [f"{1e3 * row[side]:>{width}.3f} {flops / row[side] / 1e12:>8.1f}" for side, width in (("flash", 9), ("library", 10))]
        print(f"{row['dim']:>4} {row['n']:>6} {'yes' if row['causal'] else 'no':>6} {' '.join(figures)}  {row['flash'] / row['library']:.2f}")


def show(rows):
    """The table; a speed-up where there is something to compare."""
    print(f"{'B':>3} {'N':>5} {'causal':>6} {'multihead':>10} {'projections':>11} {'the rest':>9} {'sdpa':>9} {'library':>9}  ms")
    for row in rows:
        rest = row["multihead"] - row["projections"]
        library = row.get("library")
        figures = [row["multihead"], row["projections"], rest, row["sdpa"]]
        line = f"{row['batch']:>3} {row['n']:>5} {'yes' if row['causal'] else 'no':>6}"
        for width, seconds in zip((10, 11, 9, 9), figures):
            line += f" {1e3 * seconds:>{width}.3f}"
        if library is None:
            line += f" {'-':>9}"
        else:
            line += f" {1e3 * library:>9.3f}  {rest / library:.2f} x MultiheadAttention, {row['sdpa'] / library:.2f} x sdpa"
        if row["part"] < row["batch"]:
            line += f"  (torch in parts of {row['part']})"
        print(line)


if __name__ == "__main__":
    main()

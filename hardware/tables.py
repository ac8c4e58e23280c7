#!/usr/bin/env python3
"""Writes the tables of README.md from h200.json: `hardware/tables.py`. With `--check` it fails where they differ."""

import json
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
MEASURED = json.loads((FOLDER / "h200.json").read_text())
F32 = ["naive", "tiled", "flash", "register_tiles", "async_copy", "library"]
F16 = ["mma", "swizzle", "pipeline", "reuse", "library"]
MASK = {False: "no", True: "yes"}


def table(heads, rows):
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def short(number):
    """Three digits, without an exponent."""
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def tflops(d, causal, n, ms, products=2):
    """The FLOPs of the products over the scores that are seen, 4 sequences of 32 heads, in TFLOP/s."""
    return 2 * products * 4 * 32 * n * n * d / (2 if causal else 1) / ms / 1e9


def forward(dtype, kernels, lengths):
    rows = {(row["kernel"], row["d"], row["causal"], row["n"]): row["ms"] for row in MEASURED["forward"] if row["dtype"] == dtype}
    cases = sorted({key[1:] for key in rows if key[3] in lengths})
    cell = lambda kernel, case: f"{short(rows[kernel, *case])} ({short(tflops(*case, rows[kernel, *case]))})"
    lines = ([d, MASK[causal], n, *(cell(kernel, (d, causal, n)) for kernel in kernels)] for d, causal, n in cases)
    return table(["D", "causal", "N", *kernels], lines)


def beside(rows, ours, products):
    lines = []
    for row in rows:
        case = row["d"], row["causal"], row["n"]
        sides = (f"{row[side]:.4g} ({tflops(*case, row[side], products):.0f})" for side in ("flash", ours))
        lines.append([case[0], MASK[case[1]], case[2], *sides, f"{row['flash'] / row[ours]:.2f}"])
    return table(["D", "causal", "N", "PyTorch, flash", "ours", "our speed over PyTorch's"], lines)


def multihead():
    lines = []
    for row in MEASURED["multihead"]:
        rest = row["multihead"] - row["projections"]
        ours = row["library"]
        times = (short(ms) for ms in (row["multihead"], rest, row["sdpa"], ours))
        lines.append([row["batch"], row["n"], MASK[row["causal"]], *times, f"{rest / ours:.2f}", f"{row['sdpa'] / ours:.2f}"])
    return table(["B", "N", "causal", "MultiheadAttention", "the rest", "SDPA", "ours", "our speed over the rest's", "over SDPA's"], lines)


def columns(key):
    rows = MEASURED[key]
    names = {"one_us": "one split, µs", "us": "µs", "rule_us": "µs", "best_us": "µs", "ttft_ms": "TTFT, ms", "tbt_ms": "TBT, ms"}
    return table([names.get(name, name.replace("_", " ")) for name in rows[0]], (row.values() for row in rows))


TABLES = {
    "forward-f16": lambda: forward("f16", F16, [512, 1024, 4096, 8192]),
    "flash": lambda: beside(MEASURED["flash"], "library", 2),
    "forward-f32": lambda: forward("f32", F32, [512, 4096]),
    "multihead": multihead,
    "backward": lambda: beside(MEASURED["backward"], "mma", 5),
    "decode": lambda: columns("decode"),
    "steps": lambda: columns("steps"),
    "lengths": lambda: columns("lengths"),
    "pages": lambda: columns("pages"),
    "splits": lambda: columns("splits"),
}


def main():
    path = FOLDER / "README.md"
    text = path.read_text()
    names = set(re.findall(r"<!-- (\S+) -->", text))
    assert names == TABLES.keys(), f"tables and README.md differ: {names ^ TABLES.keys()}"
    fresh = text
    for name, make in TABLES.items():
        fresh = re.sub(rf"<!-- {name} -->\n(?:\|.*\n)*", lambda _: f"<!-- {name} -->\n{make()}\n", fresh)
    if "--check" not in sys.argv[1:]:
        path.write_text(fresh)
    elif fresh != text:
        sys.exit("the tables of hardware/README.md are old: hardware/tables.py writes them anew")


if __name__ == "__main__":
    main()

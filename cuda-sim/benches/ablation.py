#!/usr/bin/env python3
"""What each fast path of the simulator buys: the executor bench without it, over the bench with all of them.

    benches/ablation.py [--rounds 4] [PATH ...]

Builds the bench once with all fast paths and once without each PATH (all of `src/ablation.rs` by default), runs these
in turns, and prints a table of processor times: the least of the rounds' medians, in relation to the full build. A path
that buys less than 5 % on both kernels should go.
"""

import argparse
import json
import pathlib
import re
import subprocess

CRATE = pathlib.Path(__file__).resolve().parent.parent


def build(features, name, target):
    """Builds the bench and returns a copy of the program."""
    command = ["cargo", "bench", "-p", "cuda-sim", "--bench", "executor", "--no-run", "--message-format=json"]
    out = subprocess.run([*command, "--features", features], cwd=CRATE, check=True, capture_output=True, text=True)
    programs = [json.loads(line).get("executable") for line in out.stdout.splitlines()]
    program = next(program for program in programs if program)
    copy = target / name
    copy.write_bytes(pathlib.Path(program).read_bytes())
    copy.chmod(0o755)
    return copy


def times(program):
    """Milliseconds of tiled GEMM and row softmax, each with and without checks."""
    out = subprocess.run([program, "--bench"], cwd=CRATE, check=True, capture_output=True, text=True).stdout
    rows = [line.split("|") for line in out.splitlines() if line.startswith(("| tiled", "| row"))]
    return [float(row[4]) for row in rows]


def main():
    paths = re.findall(r'"without-([\w-]+)"', (CRATE / "src/ablation.rs").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("paths", nargs="*", metavar="PATH", help=", ".join(paths))
    arguments = parser.parse_args()
    target = CRATE.parent / "target/ablation"
    target.mkdir(parents=True, exist_ok=True)
    programs = {"all": build("", "all", target)}
    for path in arguments.paths or paths:
        programs[path] = build(f"without-{path}", path, target)
    best = {}
    for _ in range(arguments.rounds):
        for name, program in programs.items():
            new = times(program)
            best[name] = [min(pair) for pair in zip(new, best.get(name, new))]
    print("| without | tiled GEMM | without checks | row softmax | without checks |")
    print("|---|---|---|---|---|")
    for name, found in best.items():
        cells = [f"{time:.2f} ms" if name == "all" else f"{time / full:.2f} ×" for time, full in zip(found, best["all"])]
        print(f"| {'nothing' if name == 'all' else name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

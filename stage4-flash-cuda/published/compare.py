#!/usr/bin/env python3
"""Our kernels beside published ones, on one simulator: 8 heads of 4096 queries and keys, D = 128, half precision, no mask.

    compare.py LEARN_CUDA FLASH_ATTENTION_FROM_SCRATCH

The arguments are checkouts of
  https://github.com/gau-nernst/learn-cuda                  its kernel v5, bf16
  https://github.com/sonnyli/flash_attention_from_scratch   its kernel 16, f16, by its settings for an A100 and an RTX 3090
Nothing of them is part of this repository. Before, `cargo build -p gpu-tool` and `cargo gpu fetch-nvrtc --headers`; with
NVRTC_PATH another compiler makes all kernels. Prints a table as Markdown.
"""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "stage4-flash-cuda/kernels"
GPU = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/gpu"

HEADS, N, D = 8, 4096, 128
ELEMENTS = HEADS * N * D

# What a host's headers define for the published kernel 16, and the configuration that its tuner chose for a card.
KERNEL_16 = """#define M_LOG2E 1.4426950408889634
namespace std {
template <class T>
constexpr int __bit_width(T x) {
    int width = 0;
    for (; x; x >>= 1) width++;
    return width;
}
}  // namespace std
#include "forward_kernel.cuh"
using namespace flash;
constexpr FlashForwardKernelConfig CONFIG{torch::kFloat16, 128, %s};
using Config = StaticForwardKernelConfig<CONFIG>;
"""
CHOSEN = {
    "a100": (128, 64, "128, 64, 4, true, true, true, 2, 2, 0, true, false"),
    "rtx4090": (128, 32, "128, 32, 4, true, true, true, 2, 2, 0, true, true"),  # that for an RTX 3090
}


def buffers(dtype, elements):
    return [f"{dtype}[{elements}]={fill}" for fill in ("random:1", "random:2", "random:3", "uninit")]


def kernel_16(checkout, device, folder):
    """Its strides are constants: those of 16 heads, of which 8 are launched."""
    block_q, block_kv, config = CHOSEN[device]
    file = Path(folder) / f"kernel_16_{device}.cu"
    file.write_text(KERNEL_16 % config)
    fields = buffers("f16", 2 * ELEMENTS) + [f"i64={2 * ELEMENTS},2048,128,{N},16", f"i32={N // block_q},{N // block_kv}"]
    include = ["-I", checkout / "src/include"]
    options = [*include, "--kernel", "flash_forward_kernel<Config>", "--arch", "compute_80", "--std", "c++20"]
    return file, options, f"{N // block_q},{HEADS}", 128, (block_q + 2 * block_kv) * 2 * D, ["{" + ",".join(fields) + "}"]


def v5(checkout):
    file = checkout / "07_attention/attention_v5.cu"
    options = ["--kernel", "attention_v5_kernel<64,64,128,4>", "--arch", "compute_80"]
    return file, options, HEADS * N // 64, 128, 3 * 64 * 2 * D, buffers("bf16", ELEMENTS) + [f"i32={x}" for x in (HEADS, N, N)]


def constants(block_q, block_kv, threads):
    values = {"HEAD_DIM": D, "BLOCK_Q": block_q, "BLOCK_KV": block_kv, "THREADS": threads}
    return [word for name, value in values.items() for word in ("-D", f"{name}={value}")]


def reuse(block_q, block_kv, threads):
    options = constants(block_q, block_kv, threads)
    arguments = [*buffers("f16", ELEMENTS), f"f32[{HEADS * N}]=uninit", f"i32={N}", f"i32={N}", f"f32={D ** -0.5}", "i32=0"]
    shared = (block_q + 2 * block_kv) * 2 * D
    return KERNELS / "7_reuse.cu", options, N // block_q * HEADS, threads, shared, arguments


def library(block_q, block_kv, threads):
    q, k, v, o = buffers("f16", ELEMENTS)
    packed = f"{{i64={ELEMENTS},{N * D},{D}}}"
    no_mask = "{i64=0,0,0}"
    sizes = f"i32={HEADS},1,{N},{N},{D},{-(1 << 30)},{1 << 30}"
    problem = ",".join([*[packed] * 4, no_mask, no_mask, sizes, f"f32={D ** -0.5}"])
    arguments = [q, k, v, "null", "null", "null", o, f"f32[{HEADS * N}]=uninit", "{" + problem + "}"]
    shared = (block_q + 2 * block_kv) * 2 * D
    options = [*constants(block_q, block_kv, threads), "-D", "ELEMENT=f16"]
    return KERNELS / "library/attention_mma.cu", options, N // block_q * HEADS, threads, shared, arguments


def profile(device, file, options, grid, block, shared, arguments):
    command = [GPU, "profile", file, "--device", device, "--json", "-", *options]
    command += ["--grid", str(grid), "--block", str(block), "--shared", str(shared)]
    command += [word for argument in arguments for word in ("--arg", argument)]
    # Products of tensor cores are added in the host's order: no count depends on it.
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "CUDA_SIM_MMA": "fast"})
    if run.returncode:
        raise SystemExit(f"{file}: {run.stderr.strip()}")
    return {name: figure["value"] for name, figure in json.loads(run.stdout)["figures"].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learn_cuda", type=Path)
    parser.add_argument("from_scratch", type=Path)
    given = parser.parse_args()
    print("| device | kernel | ms | instructions per mma | shared wavefronts per mma | registers | spilled bytes |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for device in CHOSEN:
            kernels = {
                "`7_reuse.cu`, 64 × 64": reuse(64, 64, 64),
                "`7_reuse.cu`, 128 × 64": reuse(128, 64, 128),
                "`library/attention_mma.cu`": library(64, 64, 64),
                "learn-cuda v5": v5(given.learn_cuda.resolve()),
                "flash_attention_from_scratch 16": kernel_16(given.from_scratch.resolve(), device, folder),
            }
            for name, launch in kernels.items():
                of = profile(device, *launch)
                mma = of["flops_tensor"] / 4096
                wavefronts = of["shared_load_wavefronts"] + of["shared_store_wavefronts"]
                print(
                    f"| {device} | {name} | {1e3 * of['time']:.3f} | {of['warp_instructions'] / mma:.2f} "
                    f"| {wavefronts / mma:.2f} | {of['registers']:.0f} | {of['spills']:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

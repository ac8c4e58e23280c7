#!/usr/bin/env bash
# Runs cudarc's own examples, unmodified, on the libcuda.so of this folder.
#
#   cuda-sim/libcuda/cudarc-examples.sh [folder of libnvrtc.so.12]
#
# The sources are those of the cudarc that this workspace builds with, copied below target/. Without NVRTC, the
# examples that compile CUDA C++ are left out. Left out always: CUPTI and cuFile (other libraries), two GPUs.
set -euo pipefail
cd "$(dirname "$0")/../.."

precompiled=(01-allocate 02-copy 03-launch-kernel 04-streams 10-function-attributes 12-context-config)
compiling=(05-device-repr 06-threading 09-constant-memory matmul-kernel nvrtc-compile)
nvrtc=${1:-}
examples=("${precompiled[@]}")
if [ -n "$nvrtc" ]; then examples+=("${compiling[@]}"); fi

cargo build --release -p cuda-sim-libcuda
manifest=$(cargo metadata --format-version=1 --filter-platform=x86_64-unknown-linux-gnu |
    grep -o '"manifest_path":"[^"]*/cudarc-[0-9][^"]*"' | head -1 | cut -d'"' -f4)
copy=target/cudarc-examples
mkdir -p "$copy"
cp -r "$(dirname "$manifest")"/. "$copy"
chmod -R u+w "$copy"
# A workspace of its own, and the examples as their authors list them.
{ cat "$copy/Cargo.toml.orig"; echo; echo "[workspace]"; } > "$copy/Cargo.toml"

root=$PWD
cd "$copy"
for example in "${examples[@]}"; do
    echo "== $example"
    cargo build --quiet --example "$example" --no-default-features \
        --features std,driver,nvrtc,dynamic-loading,cuda-12080
    LD_LIBRARY_PATH="$root/target/release${nvrtc:+:$nvrtc}" "target/debug/examples/$example" | tail -5
done
echo "all ${#examples[@]} examples ran"

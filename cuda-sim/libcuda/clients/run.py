#!/usr/bin/env python3
"""Tests the driver with its clients: programs from PyPI that know nothing of the simulator.

    cuda-sim/libcuda/clients/run.py                 the light tests of all clients
    cuda-sim/libcuda/clients/run.py numba           those of one client
    cuda-sim/libcuda/clients/run.py --heavy numba   a client's own tests: minutes, of tinygrad 20
    cuda-sim/libcuda/clients/run.py --heavy numba --files test_sm test_sync

The clients are installed with pinned versions, and the driver as the wheel of this workspace, into target/clients. The heavy
tests of tinygrad need its source at the pinned commit: `--tinygrad FOLDER`, or it is downloaded. So do the tutorials of Triton:
`--triton FOLDER`. PyCUDA and CubeCL are heavy because they must be compiled, and so must a module of Triton: its test needs a C
compiler and the headers of Python.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = HERE.parents[2] / "target" / "clients"
ENVIRONMENT = PLACE / "environment"
PYCUDA = PLACE / "pycuda"
TRITON = PLACE / "triton"
LIGHT = ["cuda_bindings", "cuda_core", "numba", "taichi", "tinygrad"]
HEAVY = ["cubecl", "numba", "pycuda", "tinygrad", "triton"]
SECONDS = 120  # of one light test, on a slow machine

TINYGRAD = "a9069c177a9da9cca18593edf55acd2e6073cca6"  # the commit whose tests are run
TINYGRAD_TESTS = ["test_ops", "test_dtype_alu", "test_transcendental", "test_jit", "test_nn"]
NUMBA_TESTS = [
    "test_atomics",
    "test_blackscholes",
    "test_cooperative_groups",
    "test_laplace",
    "test_matmul",
    "test_reduction",
    "test_sm",
    "test_sync",
    "test_warp_ops",
]
CCCL = "nvidia-cuda-cccl-cu12==12.9.27"  # headers that cooperative_groups.h and CubeCL include
PYCUDA_VERSION = "2026.1"
PYCUDA_TESTS = ["test_driver", "test_gpuarray", "test_cumath"]
TRITON_COMMIT = "63068fcc274cd152fb34abe1bcab10e5078b0df5"  # the commit whose tutorials are run
TRITON_TUTORIALS = [
    "01-vector-add",
    "02-fused-softmax",
    "03-matrix-multiplication",
    "04-low-memory-dropout",
    "05-layer-norm",
    "06-fused-attention",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(LIGHT)}; heavy: of {', '.join(HEAVY)}")
    parser.add_argument("--heavy", action="store_true", help="the clients that take long, and their own tests")
    parser.add_argument("--files", nargs="+", metavar="FILE", help="with --heavy: of its tests, these")
    parser.add_argument("--tinygrad", type=Path, metavar="FOLDER", help=f"tinygrad's source at {TINYGRAD[:10]}")
    parser.add_argument("--triton", type=Path, metavar="FOLDER", help=f"Triton's tutorials at {TRITON_COMMIT[:10]}")
    options = parser.parse_args()
    clients = options.clients or (HEAVY if options.heavy else LIGHT)
    unknown = set(clients) - set(HEAVY if options.heavy else LIGHT)
    if unknown:
        parser.error(f"unknown clients: {', '.join(sorted(unknown))}")
    install()
    heavy = {
        "cubecl": cubecl_tests,
        "numba": lambda: numba_tests(options.files or NUMBA_TESTS),
        "pycuda": lambda: pycuda_tests(options.files or PYCUDA_TESTS),
        "tinygrad": lambda: tinygrad_tests(options.files or TINYGRAD_TESTS, options.tinygrad),
        "triton": lambda: triton_tests(options.files or TRITON_TUTORIALS, options.triton),
    }
    failed = [client for client in clients if not (heavy[client]() if options.heavy else light_test(client))]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def install():
    """Makes the environment; installs the driver as it is now."""
    make_environment(ENVIRONMENT, HERE / "requirements.txt")
    pip("install", "--no-deps", "--force-reinstall", HERE.parent)


def make_environment(environment, requirements):
    """Makes an environment of what is pinned, unless it is there."""
    pinned = requirements.read_text()
    mark = environment / "requirements.txt"
    if mark.is_file() and mark.read_text() == pinned:
        return
    venv.create(environment, clear=True, with_pip=True)
    pip("install", "--no-deps", "-r", requirements, environment=environment)
    mark.write_text(pinned)


def pip(*arguments, environment=ENVIRONMENT):
    command = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True)


def packages(environment=ENVIRONMENT):
    return next((environment / "lib").glob("python*/site-packages"))


def variables():
    """What the clients look up in the environment."""
    nvidia = packages() / "nvidia"
    nvrtc = nvidia / "cuda_nvrtc" / "lib"
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(nvrtc), os.environ.get("LD_LIBRARY_PATH")])),
        "CUDA_PATH": str(nvidia / "cuda_runtime"),  # the headers of half precision
        "DEV": "CUDA",  # tinygrad's backend
    }


def passes(name, arguments, limit=(), folder=None, program=ENVIRONMENT / "bin" / "python", **more):
    """Runs a program on the driver, below the program `limit` if one is given. Prints the outcome behind what the tests print."""
    start = time.monotonic()
    command = [*limit, ENVIRONMENT / "bin" / "cuda-sim", "run", program, *arguments]
    code = subprocess.run(command, env=variables() | more, cwd=folder).returncode
    outcome = f"FAIL, exit code {code}:" if code else "pass"
    print(f"{outcome} {name} ({time.monotonic() - start:.0f} s)", flush=True)
    return code == 0


def light_test(client):
    # Ends the children too, with exit code 124.
    limit = ["timeout", "--kill-after=5", str(SECONDS)]
    return passes(client, ["-W", "ignore", HERE / f"{client}_client.py"], limit)


def numba_tests(files):
    """numba-cuda's tests of kernels, shuffles, atomics and cooperative groups, as its wheel has them."""
    pip("install", "cffi==2.1.1", "filecheck==1.0.6", "psutil==7.2.2", "pytest==9.2.0", CCCL)
    pytest = ["-W", "ignore", "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "numba_fixtures"]
    pytest += ["--import-mode=importlib", "--pyargs"]
    path = str(HERE)
    return all([passes(name, [*pytest, f"numba.cuda.tests.cudapy.{name}"], PYTHONPATH=path) for name in files])


def cubecl_tests():
    """The project in `cubecl`, and the tests of its crate `cubecl-cuda`, which are compiled here."""
    manifest = HERE / "cubecl" / "Cargo.toml"
    cargo = {"program": "cargo", "CARGO_TARGET_DIR": str(PLACE / "cubecl")}
    client = passes("cubecl", ["run", "--locked", "--manifest-path", manifest], **cargo)
    metadata = subprocess.check_output(["cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", manifest])
    crate = next(package for package in json.loads(metadata)["packages"] if package["name"] == "cubecl-cuda")
    source = PLACE / f"cubecl-cuda-{crate['version']}"
    unpack_crate(Path(crate["manifest_path"]).parent, source)
    pip("install", CCCL)
    for package in ["cuda_nvcc", "cuda_cccl", "cuda_runtime"]:  # headers of mma.h and libcu++, in one folder
        shutil.copytree(packages() / "nvidia" / package / "include", PLACE / "cuda" / "include", dirs_exist_ok=True)
    cuda = {"CUDA_PATH": str(PLACE / "cuda"), "CUDARC_CUDA_VERSION": "12090"}
    # With its own Cargo.lock: a later enumset does not compile with the tests.
    tests = ["test", "--locked", "--lib", "--manifest-path", source / "Cargo.toml", "--", "--test-threads=1"]
    return passes("cubecl-cuda", tests, **cargo, **cuda) and client


def unpack_crate(crate, source):
    """Copies a crate into `target`, as a workspace of its own: it is no member of the workspace around it."""
    shutil.copytree(crate, source, dirs_exist_ok=True)
    with open(source / "Cargo.toml", "a") as manifest:  # as new with each copy
        manifest.write("\n[workspace]\n")


def pycuda_tests(files):
    """Our test and PyCUDA's own tests. The nvcc of `pycuda` writes PTX in place of machine code."""
    source = PYCUDA / f"pycuda-{PYCUDA_VERSION}"
    make_environment(PYCUDA, HERE / "pycuda" / "requirements.txt")
    if not (packages(PYCUDA) / "pycuda").is_dir():
        build_pycuda(source)
    path = os.pathsep.join([str(HERE / "pycuda"), str(PYCUDA / "bin"), os.environ["PATH"]])
    curand = packages(PYCUDA) / "nvidia" / "cu13" / "lib"
    libraries = os.pathsep.join([str(curand), variables()["LD_LIBRARY_PATH"]])
    python = {"program": PYCUDA / "bin" / "python", "PATH": path, "LD_LIBRARY_PATH": libraries}
    outcomes = [passes("pycuda", ["-W", "ignore", HERE / "pycuda_client.py"], **python)]
    pytest = ["-W", "ignore", "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    outcomes += [passes(name, [*pytest, source / "test" / f"{name}.py"], **python) for name in files]
    return all(outcomes)


def build_pycuda(source):
    """PyCUDA needs CUDA's headers, and a libcuda.so to be linked with, which is the driver."""
    pip("download", "--no-deps", "--no-binary", "pycuda", "--dest", PYCUDA, f"pycuda=={PYCUDA_VERSION}")
    subprocess.run(["tar", "xf", PYCUDA / f"{source.name}.tar.gz", "-C", PYCUDA], check=True)
    nvidia = packages(PYCUDA) / "nvidia"
    headers = [nvidia / package / "include" for package in ["cuda_runtime", "cuda_profiler_api", "cu13"]]
    options = {
        "cuda-inc-dir": ",".join(map(str, headers)),
        "cudadrv-lib-dir": ENVIRONMENT / "lib" / "cuda-sim",
        "curand-lib-dir": nvidia / "cu13" / "lib",
        "curand-libname": ":libcurand.so.10",
    }
    configure = [f"--{option}={value}" for option, value in options.items()]
    subprocess.run([PYCUDA / "bin" / "python", "configure.py", *configure], cwd=source, check=True)
    pip("install", "--no-deps", "--no-build-isolation", source, environment=PYCUDA)


def tinygrad_tests(files, source):
    """tinygrad's tests of operations, types, functions, JIT and layers."""
    source = source or download()
    # Not beside the clients: torch brings other versions of NVRTC and of CUDA's headers.
    torch = PLACE / "torch"
    if not torch.is_dir():
        tools = ["pytest==9.2.0", "pytest-timeout==2.4.0", "hypothesis==6.170.15", "ziglang==0.17.1"]
        pip("install", "--target", torch, "torch==2.8.0", *tools)
    pytest = ["-m", "pytest", "-q", "--timeout=600"]
    chosen = {"PYTHONPATH": f"{source}{os.pathsep}{torch}", "RUN_SLOW": "1", "CC": str(HERE / "zig_cc.py")}
    return all([passes(name, [*pytest, f"test/backend/{name}.py"], folder=source, **chosen) for name in files])


def download():
    source = PLACE / f"tinygrad-{TINYGRAD}"
    if not source.is_dir():
        archive = PLACE / "tinygrad.tar.gz"
        urllib.request.urlretrieve(f"https://codeload.github.com/tinygrad/tinygrad/tar.gz/{TINYGRAD}", archive)
        subprocess.run(["tar", "xf", archive, "-C", PLACE], check=True)
    return source


def triton_tests(files, folder):
    """The kernels of Triton's tutorials, compiled for compute 8.0 and 9.0."""
    make_environment(TRITON, HERE / "triton" / "requirements.txt")
    settings = {"TRITON_CACHE_DIR": str(TRITON / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    outcomes = []
    for name in files:
        arguments = ["-W", "ignore", HERE / "triton" / "tutorials.py", tutorial(name, folder)]
        for device in "a100", "h100":
            python = {"program": TRITON / "bin" / "python", "CUDA_SIM_DEVICE": device}
            outcomes.append(passes(f"{name} on {device}", arguments, **python, **settings))
    return all(outcomes)


def tutorial(name, folder):
    """The file of a tutorial: in the folder if there is one, or downloaded."""
    file = (folder or TRITON / f"tutorials-{TRITON_COMMIT}") / f"{name}.py"
    if not folder and not file.is_file():
        file.parent.mkdir(exist_ok=True)
        address = "https://raw.githubusercontent.com/triton-lang/triton"
        part = file.with_suffix(".part")
        urllib.request.urlretrieve(f"{address}/{TRITON_COMMIT}/python/tutorials/{file.name}", part)
        part.rename(file)
    return file


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Tests the driver with its clients: programs from PyPI that know nothing of the simulator.

    cuda-sim/libcuda/clients/run.py                 the light tests of all clients
    cuda-sim/libcuda/clients/run.py numba           those of one client
    cuda-sim/libcuda/clients/run.py --heavy numba   a client's own tests: hours for all, so name one
    cuda-sim/libcuda/clients/run.py --heavy numba --files test_sm test_sync

The clients are installed with pinned versions, and the driver as the wheel of this workspace, into target/clients. The heavy
tests of tinygrad need its source at the pinned commit: `--tinygrad FOLDER`, or it is downloaded.
"""

import argparse
import os
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = HERE.parents[2] / "target" / "clients"
ENVIRONMENT = PLACE / "environment"
LIGHT = ["cuda_bindings", "cuda_core", "numba", "tinygrad"]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(LIGHT)}; all if none is named")
    parser.add_argument("--heavy", action="store_true", help="the client's own tests: of numba and tinygrad")
    parser.add_argument("--files", nargs="+", metavar="FILE", help="with --heavy: of its tests, these")
    parser.add_argument("--tinygrad", type=Path, metavar="FOLDER", help=f"tinygrad's source at {TINYGRAD[:10]}")
    options = parser.parse_args()
    unknown = set(options.clients) - set(LIGHT)
    if unknown:
        parser.error(f"unknown clients: {', '.join(sorted(unknown))}")
    install()
    if options.heavy:
        heavy = {
            "numba": lambda: numba_tests(options.files or NUMBA_TESTS),
            "tinygrad": lambda: tinygrad_tests(options.files or TINYGRAD_TESTS, options.tinygrad),
        }
        chosen = [heavy[client] for client in options.clients or heavy if client in heavy]
        sys.exit(not all([test() for test in chosen]))
    failed = [client for client in options.clients or LIGHT if not light_test(client)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def install():
    """Makes the environment, unless it has what is pinned; installs the driver as it is now."""
    pinned = (HERE / "requirements.txt").read_text()
    mark = ENVIRONMENT / "requirements.txt"
    if not mark.is_file() or mark.read_text() != pinned:
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        pip("install", "--no-deps", "-r", HERE / "requirements.txt")
        mark.write_text(pinned)
    pip("install", "--no-deps", "--force-reinstall", HERE.parent)


def pip(*arguments):
    command = [ENVIRONMENT / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True)


def command(arguments):
    """Python in the environment, on the driver."""
    return [ENVIRONMENT / "bin" / "cuda-sim", "run", ENVIRONMENT / "bin" / "python", *arguments]


def variables():
    """What the clients look up in the environment."""
    packages = next((ENVIRONMENT / "lib").glob("python*/site-packages"))
    nvrtc = packages / "nvidia" / "cuda_nvrtc" / "lib"
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(nvrtc), os.environ.get("LD_LIBRARY_PATH")])),
        "CUDA_PATH": str(packages / "nvidia" / "cuda_runtime"),  # the headers of half precision
        "DEV": "CUDA",  # tinygrad's backend
    }


def passes(name, arguments, limit=(), folder=None, **more):
    """Runs Python on the driver, below the program `limit` if one is given. Prints the outcome behind what the tests print."""
    start = time.monotonic()
    code = subprocess.run([*limit, *command(arguments)], env=variables() | more, cwd=folder).returncode
    outcome = f"FAIL, exit code {code}:" if code else "pass"
    print(f"{outcome} {name} ({time.monotonic() - start:.0f} s)", flush=True)
    return code == 0


def light_test(client):
    # Ends the children too, with exit code 124.
    limit = ["timeout", "--kill-after=5", str(SECONDS)]
    return passes(client, ["-W", "ignore", HERE / f"{client}_client.py"], limit)


def numba_tests(files):
    """numba-cuda's tests of kernels, shuffles, atomics and cooperative groups, as its wheel has them."""
    cccl = "nvidia-cuda-cccl-cu12==12.9.27"  # headers that cooperative_groups.h includes
    pip("install", "cffi==2.1.1", "filecheck==1.0.6", "psutil==7.2.2", "pytest==9.2.0", cccl)
    pytest = ["-W", "ignore", "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "numba_fixtures"]
    pytest += ["--import-mode=importlib", "--pyargs"]
    path = str(HERE)
    return all([passes(name, [*pytest, f"numba.cuda.tests.cudapy.{name}"], PYTHONPATH=path) for name in files])


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


if __name__ == "__main__":
    main()

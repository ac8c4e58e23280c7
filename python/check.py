#!/usr/bin/env python3
"""Builds the wheel, installs it in an empty environment, and tests it there: first without PyTorch, then with it.

    python/check.py                       needs Rust, and Python 3.10 or later with pip
    python/check.py --without-pytorch     leaves the second half out
    python/check.py -k gradient           further arguments are pytest's

CUDA tensors are tested on the simulated driver, which is built first, by `cargo build --release -p cuda-sim-libcuda`. PyTorch is
large, so it is installed once, into target/python/torch of this workspace, by pip with its own settings: the CPU build will do.
All else is new in each run. Each step's time is printed.
"""

import os
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PLACE = ROOT / "target" / "python"
ENVIRONMENT = PLACE / "environment"
TORCH = PLACE / "torch"
WHEELS = PLACE / "wheels"
DRIVER = PLACE / "driver"
# One folder for both workspaces: the driver is the other one's.
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
os.environ["CARGO_TARGET_DIR"] = str(TARGET)

PYTEST = "pytest==9.2.0"
CUDA_PYTHON = "cuda-bindings==12.9.10"
PYTORCH = ["torch==2.15.0", "transformers==5.23.0"]
WITH_TORCH = "--without-pytorch" not in sys.argv
ARGUMENTS = [argument for argument in sys.argv[1:] if argument != "--without-pytorch"]
LARGEST = 15 * 1000 * 1000  # bytes of the wheel


def main():
    start = time.monotonic()
    wheel = step("wheel", build)
    size = wheel.stat().st_size
    print(f"   {wheel.name}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        sys.exit(f"the wheel has more than {LARGEST / 1e6:.0f} MB")
    step("environment", lambda: install(wheel))
    step("tests without PyTorch", test)
    step("driver", build_driver)
    step("tests of CUDA tensors", test_cuda)
    step("notebook without PyTorch", run_notebook)
    if not WITH_TORCH:
        print(f"-- all but what needs PyTorch: {time.monotonic() - start:.0f} s")
        return
    step("PyTorch", fetch_torch)
    next((ENVIRONMENT / "lib").glob("python*/site-packages")).joinpath("torch.pth").write_text(f"{TORCH}\n")
    step("tests with PyTorch", test)
    step("notebook with PyTorch", run_notebook)
    print(f"-- all: {time.monotonic() - start:.0f} s")


def step(name, run):
    print(f"== {name}", flush=True)
    start = time.monotonic()
    result = run()
    print(f"-- {name}: {time.monotonic() - start:.0f} s", flush=True)
    return result


def build():
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", WHEELS, HERE)
    (wheel,) = WHEELS.glob("*.whl")
    return wheel


def fetch_torch():
    mark, wanted = TORCH / "installed", " ".join(PYTORCH)
    if mark.is_file() and mark.read_text() == wanted:
        return
    pip(Path(sys.executable), "install", "--upgrade", "--target", TORCH, *PYTORCH)
    mark.write_text(wanted)


def install(wheel):
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip(ENVIRONMENT / "bin" / "python", "install", wheel, PYTEST, CUDA_PYTHON)


def pip(python, *arguments):
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments], check=True)


def test(file=".", **variables):
    run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *ARGUMENTS, file, **variables)


def build_driver():
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "cuda-sim-libcuda"], cwd=ROOT, check=True)
    DRIVER.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda.so", "libcuda.so.1"):
        (DRIVER / name).unlink(missing_ok=True)
        (DRIVER / name).symlink_to(TARGET / "release" / "libcuda.so")


def test_cuda():
    test("test_cuda.py", LD_LIBRARY_PATH=str(DRIVER))


def run_notebook():
    run_python(HERE / "notebook.py")


def run_python(*arguments, **variables):
    # From the folder of the tests, where the package's source is not found instead of the wheel.
    command = [ENVIRONMENT / "bin" / "python", *arguments]
    ran = subprocess.run(command, cwd=HERE / "tests", env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables})
    none_selected = bool(ARGUMENTS) and ran.returncode == 5
    if ran.returncode and not none_selected:
        sys.exit("failed")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Builds the wheel, installs it in an empty environment, and tests it there: first without PyTorch, then with it.

    python/check.py                       needs Rust, and Python 3.10 or later with pip
    python/check.py --without-pytorch     leaves the second half out
    python/check.py -k gradient           further arguments are pytest's

PyTorch is large, so it is installed once, into target/python/torch of this workspace, by pip with its own settings: the CPU
build will do. All else is new in each run. Each step's time is printed.
"""

import os
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACE = HERE.parent / "target" / "python"
ENVIRONMENT = PLACE / "environment"
TORCH = PLACE / "torch"
WHEELS = PLACE / "wheels"

PYTEST = "pytest==9.2.0"
PYTORCH = "torch==2.15.0"
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
    if not WITH_TORCH:
        print(f"-- all but the tests with PyTorch: {time.monotonic() - start:.0f} s")
        return
    step("PyTorch", fetch_torch)
    next((ENVIRONMENT / "lib").glob("python*/site-packages")).joinpath("torch.pth").write_text(f"{TORCH}\n")
    step("tests with PyTorch", test)
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
    mark = TORCH / "installed"
    if mark.is_file() and mark.read_text() == PYTORCH:
        return
    pip(Path(sys.executable), "install", "--upgrade", "--target", TORCH, PYTORCH)
    mark.write_text(PYTORCH)


def install(wheel):
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip(ENVIRONMENT / "bin" / "python", "install", wheel, PYTEST)


def pip(python, *arguments):
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments], check=True)


def test():
    # From the folder of the tests, where the package's source is not found instead of the wheel.
    command = [ENVIRONMENT / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *ARGUMENTS, "."]
    ran = subprocess.run(command, cwd=HERE / "tests", env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    if ran.returncode:
        sys.exit("failed")


if __name__ == "__main__":
    main()

"""Builds the wheel: the program `cuda-sim` and its library, compiled by cargo. There is no Python code in it.

A build backend as PEP 517 describes it, for `pip install` and `pip wheel` of this folder.
"""

import base64
import hashlib
import json
import stat
import subprocess
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parents[1]
NAME, VERSION, TAG = "cuda_sim", "0.1.0", "py3-none-linux_x86_64"

METADATA = f"""\
Metadata-Version: 2.1
Name: cuda-sim
Version: {VERSION}
Summary: Runs CUDA programs without a GPU: a driver that checks every memory access
Requires-Python: >=3.9
"""

WHEEL = f"""\
Wheel-Version: 1.0
Generator: cuda-sim
Root-Is-Purelib: false
Tag: {TAG}
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel to `wheel_directory` and returns its name. Called by pip."""
    command = ["cargo", "build", "--release", "--locked", "--package", "cuda-sim-libcuda"]
    target = subprocess.run(
        [*command, "--message-format=json-render-diagnostics"], cwd=WORKSPACE, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    built = {path.name: path for path in artifacts(target)}
    data = f"{NAME}-{VERSION}.data"
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        # pip puts the first into the environment's `bin`, the second below its root, where the program looks for it.
        f"{data}/scripts/cuda-sim": built["cuda-sim"].read_bytes(),
        f"{data}/data/lib/cuda-sim/libcuda.so": built["libcuda.so"].read_bytes(),
        f"{info}/METADATA": METADATA.encode(),
        f"{info}/WHEEL": WHEEL.encode(),
    }
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    wheel = f"{NAME}-{VERSION}-{TAG}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # pip makes only what is marked as a regular file executable.
            entry.external_attr = (stat.S_IFREG | (0o755 if name.endswith("/cuda-sim") else 0o644)) << 16
            archive.writestr(entry, content)
    return wheel


def artifacts(messages):
    """Paths of the files that cargo has built, from its messages."""
    for line in messages.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and "cuda-sim-libcuda" in message["package_id"]:
            yield from map(Path, message["filenames"])
            if message["executable"]:
                yield Path(message["executable"])


def record(files, own_name):
    """The list of the wheel's files with their hashes and sizes."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    lines.append(f"{own_name},,")
    return "\n".join(lines).encode() + b"\n"

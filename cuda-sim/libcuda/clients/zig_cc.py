#!/usr/bin/env python3
"""clang for tinygrad's CPU backend, which some of its tests copy to and from: that of PyPI's `ziglang`.

It names targets in another way, reads and writes files only, and adds checks and debug information unless told not to.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    source, output = Path(folder) / "source.c", Path(folder) / "output.o"
    source.write_bytes(sys.stdin.buffer.read())
    options = [option for option in sys.argv[1:] if option not in ("-", "-o") and not option.startswith("--target=")]
    options += ["-fno-sanitize=all", "-g0", source, "-o", output]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *options], check=True)
    sys.stdout.buffer.write(output.read_bytes())

#!/usr/bin/env python3
"""Runs `notebook.ipynb` cell by cell, and compares what the cells print with the outputs that it has.

    python notebook.py            in an environment with the package
    python notebook.py --write    writes the outputs into the notebook

A cell's metadata say what it needs, `torch` or `nvrtc`, and whether its output `varies` from run to run: that is not compared. A
cell whose need is not installed is left out, and named. The book's page on Python shows cells of the notebook by their ids.
"""

import contextlib
import importlib.util
import io
import json
import sys
import traceback
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parent / "notebook.ipynb"


def main():
    write = "--write" in sys.argv
    notebook = json.loads(NOTEBOOK.read_text())
    names = {"__name__": "__main__"}
    failed = False
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        need = cell["metadata"].get("needs")
        if need and not INSTALLED[need]():
            print(f"left out: {cell['id']}, which needs {need}")
            continue
        printed = run("".join(cell["source"]), names)
        if printed is None:
            sys.exit(f"failed: {cell['id']}")
        saved = "".join(line for output in cell["outputs"] for line in output["text"])
        if write:
            lines = printed.splitlines(keepends=True)
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        elif printed != saved and not cell["metadata"].get("varies"):
            print(f"differs: {cell['id']}\n{printed}\nin the notebook:\n{saved}")
            failed = True
        else:
            print(f"ran: {cell['id']}")
    if write:
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    if failed:
        sys.exit("outputs differ: `notebook.py --write` writes them")


def run(source, names):
    """What a cell prints; None if it raises."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(compile(source, NOTEBOOK.name, "exec"), names)
        except Exception:
            traceback.print_exc()
            return None
    return printed.getvalue()


def has_nvrtc():
    from attention_kernels import DeviceError, launch

    try:
        launch('extern "C" __global__ void nothing() {}', "nothing", grid=1, block=1)
    except DeviceError:
        raise
    except RuntimeError:  # there is no compiler
        return False
    return True


INSTALLED = {"torch": lambda: importlib.util.find_spec("torch") is not None, "nvrtc": has_nvrtc}

if __name__ == "__main__":
    main()

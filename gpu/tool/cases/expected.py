#!/usr/bin/env python3
"""Writes the expected values into the case files beside it: `expected.py`, or `expected.py --check` to compare only.

The values come from `reference`, which shares nothing with the simulator: integers, fractions, and closed formulas
for whole kernels (`reference/kernels.py`). Needs Python 3.11, nothing else.
"""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from reference import approximate, floats, kernels  # noqa: E402
from reference.block import Block  # noqa: E402
from reference.integers import width  # noqa: E402


def arguments(text):
    """For each argument of `// args:` its type and its elements, as bits; None where it has no contents."""
    found = []
    for item in re.search(r"^// args: (.*)$", text, re.M).group(1).split():
        ty, count, init = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?=(.*)", item).groups()
        n = int(count or 1)
        if init.startswith("{"):
            elements = [int(x, 0) % (1 << width(ty)) for x in init.strip("{}").split(",")]
            if len(elements) != n:
                raise ValueError(f"{len(elements)} elements for {ty}[{count}]")
        elif init == "zeros":
            elements = [0] * n
        elif init == "iota" and ty not in floats.FORMATS:
            elements = list(range(n))
        elif count is None:
            elements = [int(init, 0)]
        else:
            elements = None
        found.append((ty, n, elements))
    return found


def shown(raw, ty):
    return "nan" if raw == floats.NAN else f"0x{raw:0{width(ty) // 4}x}"


def expect_line(argument, ty, values, bound=""):
    return f"// expect {argument}{' ' if bound else ''}{bound}: {ty} " + " ".join(shown(v, ty) for v in values)


def straight(text, given):
    """The lines of a case without branches: after each store, what it stores."""
    threads = int(re.search(r"^// launch:.*\bblock=(\d+)", text, re.M).group(1))
    block = Block(threads, [elements for _, _, elements in given])
    filled = dict.fromkeys(range(len(given)), 0)
    lines, running, bound = [], False, ""
    for line in text.splitlines():
        if line.startswith("// expect"):
            continue
        lines.append(line)
        code = line.split("//")[0].strip()
        if code.startswith(".reg"):
            block.declare(code)
        running = running or code.startswith("ld.global")
        for statement in re.findall(r"[^;]+;", code) if running else []:
            if statement.strip() in ("ret;", "exit;"):
                continue
            opcode = re.sub(r"^@\S+\s+", "", statement.strip()).split()[0]
            base, *mods = opcode.split(".")
            if base not in ("st", "selp", "mov"):
                bound = approximate.bound(base, mods[-1].rstrip(";")) if {"approx", "full"} & set(mods) else ""
            stored = block.run(statement.strip())
            if stored is None:
                continue
            argument, offset, _, values = stored
            ty = given[argument][0]
            if offset != filled[argument] * width(ty) // 8:
                raise ValueError(f"this store should be at {filled[argument] * width(ty) // 8}: {line}")
            filled[argument] += len(values)
            lines.append(expect_line(argument, ty, values, bound))
    for argument, n in filled.items():
        if n not in (0, given[argument][1]):
            raise ValueError(f"argument {argument} has {given[argument][1]} elements, and {n} are stored")
    return lines


def whole(name, text, given):
    """The lines of a case that `reference/kernels.py` knows by name: its expected buffers follow `// args:`."""
    lines = []
    for line in text.splitlines():
        if line.startswith("// expect"):
            continue
        lines.append(line)
        if line.startswith("// args:"):
            for argument, values in kernels.EXPECTED[name]([elements for _, _, elements in given]).items():
                ty, n, _ = given[argument]
                if len(values) != n:
                    raise ValueError(f"argument {argument}: {len(values)} values, not {n}")
                lines.append(expect_line(argument, ty, [v if v == floats.NAN else v % (1 << width(ty)) for v in values]))
    return lines


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: expected.py [--check]")
    stale = []
    for path in sorted(Path(__file__).parent.glob("*.ptx")):
        text = path.read_text()
        try:
            given = arguments(text)
            lines = whole(path.stem, text, given) if path.stem in kernels.EXPECTED else straight(text, given)
        except (ValueError, AttributeError, KeyError) as error:
            sys.exit(f"{path.name}: {error!r}")
        new = "\n".join(lines) + "\n"
        if new != text:
            stale.append(path.name)
            if not check:
                path.write_text(new)
    if check and stale:
        sys.exit("expected.py would change " + ", ".join(stale))
    print(f"{'stale' if check else 'changed'}: {', '.join(stale) or 'none'}")


if __name__ == "__main__":
    main()

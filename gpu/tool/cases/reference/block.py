"""Runs the straight part of a case: no branch, every thread of the block at the same instruction.

What it knows of PTX is what the cases of single instructions need: registers by name, predicates, guards,
`ld.global` and `st.global` at `[%oN+offset]`, where `%oN` is the address of this thread's element of argument N.
"""

import re

from . import approximate, data, floats, integers, warp

OPERAND = re.compile(r"\{[^}]*\}|[^,{}\s][^,{}]*")
PAIRS = {"add", "sub", "mul", "fma", "min", "max", "neg", "abs", "set"}
SPECIAL = {"laneid", "tid", "ntid", "ctaid", "nctaid", "warpid"}


class Block:
    """Registers of all threads, and what they stored."""

    def __init__(self, threads, arguments):
        self.n = threads
        self.arguments = arguments  # for each: bits of its elements, or None if it is not to be read
        self.registers = {}
        self.widths = {}
        self.carry = [0] * threads

    def declare(self, line):
        """`.reg .b32 %a, %b<3>;`"""
        ty, names = re.match(r"\.reg\s+\.(\w+)\s+(.*);", line).groups()
        for name in names.split(","):
            stem, count = re.match(r"(%?\w+?)(?:<(\d+)>)?$", name.strip()).groups()
            for each in [stem] if count is None else [stem + str(i) for i in range(int(count))]:
                self.widths[each] = 1 if ty == "pred" else integers.width(ty)
                self.registers[each] = [0] * self.n

    def read(self, operand, ty=None):
        """The values of an operand in all threads."""
        operand = operand.strip()
        if operand in self.registers:
            return self.registers[operand]
        if operand.startswith("!"):
            return [1 - p for p in self.read(operand[1:])]
        if operand.startswith("%"):
            return warp.special(operand[1:], self.n)
        if operand[:2].lower() == "0f":
            return [int(operand[2:], 16)] * self.n
        if operand[:2].lower() == "0d":
            return [int(operand[2:], 16)] * self.n
        return [int(operand, 0)] * self.n

    def write(self, name, values, active):
        if name == "_":
            return
        mask = (1 << self.widths[name]) - 1
        old = self.registers[name]
        self.registers[name] = [
            (v if v == floats.NAN else v & mask) if on else o for v, o, on in zip(values, old, active)
        ]

    def run(self, line):
        """Runs one instruction. For a store: argument, offset in bytes, type, values of the threads that store."""
        match = re.match(r"(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*);", line)
        if not match:
            raise ValueError(f"cannot read: {line}")
        negate, guard, opcode, rest = match.groups()
        active = [1] * self.n if guard is None else self.read(("!" if negate else "") + guard)
        base, *mods = opcode.split(".")
        operands = [o.strip() for o in OPERAND.findall(rest)]
        if base == "st":
            number, offset = re.fullmatch(r"\[%o(\d+)(?:\+(\d+))?\]", operands[0]).groups()
            return int(number), int(offset or 0), mods[-1], self.read(operands[1])
        if base == "ld":
            number = int(re.fullmatch(r"\[%o(\d+)\]", operands[1]).group(1))
            self.write(operands[0], self.arguments[number][: self.n], active)
            return None
        self.execute(base, mods, operands, active)
        return None

    def execute(self, base, mods, operands, active):
        target, *sources = operands
        if base in warp.INSTRUCTIONS:
            for name, values in warp.compute(self, base, mods, operands, active):
                self.write(name, values, active)
            return
        if base == "setp":
            self.set_predicates(mods, target, sources, active)
            return
        if base == "mov" and (target.startswith("{") or sources[0].startswith("{")):
            self.move_parts(mods[-1], target, sources[0], active)
            return
        columns = [self.read(s) for s in sources]
        if base in ("addc", "subc", "madc") or "cc" in mods:
            pairs = [integers.carry(base, mods, r, c) for r, c in zip(zip(*columns), self.carry)]
            self.write(target, [p[0] for p in pairs], active)
            self.carry = [new[1] if on else old for new, old, on in zip(pairs, self.carry, active)]
            return
        width = self.widths.get(target)
        self.write(target, [value(base, mods, r, width) for r in zip(*columns)], active)

    def set_predicates(self, mods, target, sources, active):
        """setp, with its second target and its logic."""
        results = [comparison(mods, r) for r in zip(*(self.read(s) for s in sources))]
        for name, column in zip(target.split("|"), zip(*results)):
            self.write(name, column, active)

    def move_parts(self, ty, target, source, active):
        """`mov.b32 {a, b}, c` and back."""
        n = integers.width(ty)
        parts = [p.strip() for p in (target if target.startswith("{") else source).strip("{}").split(",")]
        part = n // len(parts)
        if target.startswith("{"):
            for i, name in enumerate(parts):
                self.write(name, [x >> (part * i) for x in self.read(source)], active)
        else:
            columns = [self.read(p) for p in parts]
            whole = [sum((x & ((1 << part) - 1)) << (part * i) for i, x in enumerate(r)) for r in zip(*columns)]
            self.write(target, whole, active)


def comparison(mods, raw):
    """Both results of setp; the second is of the opposite comparison, or of the high halves."""
    op, ftz, ty = mods[0], "ftz" in mods, mods[-1]
    if ty.endswith("x2"):
        return tuple(comparison([*mods[:-1], ty.removesuffix("x2")], half)[0] for half in halves(raw))
    holds = data.compare(op, ty, ftz, raw[0], raw[1])
    combine = next((m for m in mods[1:] if m in ("and", "or", "xor")), None)
    if combine is None:
        return holds, 1 - holds
    return data.logic(combine, holds, raw[2]), data.logic(combine, 1 - holds, raw[2])


def halves(raw):
    """The low halves of operands, and their high halves."""
    return [x & 0xFFFF for x in raw], [x >> 16 for x in raw]


def of_halves(base, mods, raw):
    """The result of an instruction on pairs of 16-bit values."""
    mods = ["u16" if base == "set" and m == "u32" else m.removesuffix("x2") for m in mods]
    low, high = (value(base, mods, half, 16) for half in halves(raw))
    if floats.NAN in (low, high):
        raise ValueError(f"{base} makes half a pair NaN, whose bits are open")
    return (low & 0xFFFF) | high << 16


def value(base, mods, raw, width):
    """The result of an instruction that each thread runs for itself."""
    ty = mods[-1]
    if floats.NAN in raw:
        raise ValueError(f"{base} reads a NaN whose bits are open")
    if base == "mov" or base == "cvta":
        return raw[0]
    if base == "selp":
        return raw[0] if raw[2] else raw[1]
    if base == "slct":
        return data.select_by_sign(mods, raw)
    if base in PAIRS and ty.endswith("x2"):
        return of_halves(base, mods, raw)
    if base == "set":
        yes = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "u16": 0xFFFF}.get(mods[-2], 0xFFFFFFFF)
        return yes if comparison([m for m in mods if m != mods[-2] or m == ty], raw)[0] else 0
    if base == "testp":
        return floats.holds(mods[0], raw[0], ty)
    if base == "cvt":
        return data.convert_pair(mods, raw) if mods[-2].endswith("x2") else data.convert(mods, raw[0], width)
    if "approx" in mods or "full" in mods:
        return approximate.compute(base, mods, raw)
    if ty == "pred":
        return 1 - raw[0] if base == "not" else data.logic(base, raw[0], raw[1])
    if ty in floats.FORMATS:
        result = floats.compute(base, mods, raw)
    else:
        result = integers.compute(base, mods, raw)
    if result is None:
        raise ValueError(f"no reference for {base}.{'.'.join(mods)}")
    return result

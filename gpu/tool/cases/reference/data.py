"""Comparisons, selection and conversions."""

import math
from fractions import Fraction

from .floats import FORMATS, INF, NAN, decode, encode, mode_of
from .integers import bits, bounds, clamp, signed, value, width

COMPARISONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def number(x):
    """A float value as something that Python compares: -0 equals +0."""
    size = Fraction(2) ** 5000 if x[1] == INF else x[1]
    return -size if x[0] else size


def compare(op, ty, ftz, a, b):
    """Whether the comparison holds, 0 or 1."""
    if ty not in FORMATS:
        return int(COMPARISONS[UNSIGNED_NAMES.get(op, op)](value(a, ty), value(b, ty)))
    x, y = decode(a, ty, ftz), decode(b, ty, ftz)
    unordered = NAN in (x, y)
    if op in ("num", "nan"):
        return int(unordered == (op == "nan"))
    if unordered:
        return int(op.endswith("u"))
    return int(COMPARISONS[op.removesuffix("u")](number(x), number(y)))


def logic(op, a, b):
    return {"and": a & b, "or": a | b, "xor": a ^ b}[op]


def select_by_sign(mods, raw):
    """slct: a if c is at least zero; NaN is not."""
    of = mods[-1]
    if of == "f32":
        c = decode(raw[2], of, "ftz" in mods)
        chosen = 0 if c != NAN and number(c) >= 0 else 1
    else:
        chosen = 0 if value(raw[2], of) >= 0 else 1
    return bits(raw[chosen], width(mods[-2]))


def to_integer(x, mode):
    """A fraction of any sign, rounded to an integer."""
    return {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[mode](x)


INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def convert(mods, raw, register_bits):
    """cvt. The register may be wider than the result, which is extended to it by its sign."""
    to, of = mods[-2:]
    ftz, sat = "ftz" in mods, "sat" in mods
    if to == "tf32":
        return convert_tf32(mods, raw)
    integral = next((INTEGRAL[m] for m in mods if m in INTEGRAL), None)
    if of in FORMATS:
        x = decode(raw, of, ftz and of == "f32")
        if to in FORMATS:
            if integral and x != NAN and x[1] != INF:
                x = (x[0], Fraction(abs(to_integer(number(x), integral))))
            return encode(x, to, mode_of(mods), ftz and to == "f32", sat, "relu" in mods)
        if x == NAN:
            # The manual: zero, or the top bit if one side is f64 or the result has 64 bits.
            out = 1 << (width(to) - 1) if of == "f64" or width(to) == 64 else 0
        elif x[1] == INF:
            out = bounds(to)[0 if x[0] else 1]
        else:
            out = clamp(to_integer(number(x), integral), to)
    else:
        x = value(raw, of)
        if to in FORMATS:
            return encode((int(x < 0), Fraction(abs(x))), to, mode_of(mods), False, sat)
        out = clamp(x, to) if sat else x
    out = value(out, to)
    return bits(out, register_bits) if signed(to) else out


def convert_tf32(mods, raw):
    """An f32 with 10 bits of fraction: the upper 19 bits of the register."""
    top = encode(decode(raw, "f32"), "tf32", mode_of(mods), relu="relu" in mods)
    return top if top == NAN else top << 13


def convert_pair(mods, raw):
    """cvt.rn.f16x2.f32 and its bf16 form: the first source in the high half."""
    to = mods[-2].removesuffix("x2")
    high, low = (convert([*mods[:-2], to, mods[-1]], r, 16) for r in raw)
    # The NaN of a conversion to 16 bits is the canonical one.
    return sum((0x7FFF if h == NAN else h) << at for h, at in ((high, 16), (low, 0)))

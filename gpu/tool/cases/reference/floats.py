"""Floating-point instructions: values are fractions, rounded once.

A value is `NAN`, or a pair of sign (0 or 1) and magnitude: a Fraction, or `INF`.
"""

import math
from fractions import Fraction

NAN = "nan"
INF = "inf"

# Bits of precision (the hidden one included) and of the exponent.
FORMATS = {"f16": (11, 5), "bf16": (8, 8), "tf32": (11, 8), "f32": (24, 8), "f64": (53, 11)}


def split(ty):
    precision, exponent = FORMATS[ty]
    return precision, exponent, (1 << (exponent - 1)) - 1


def decode(raw, ty, ftz=False):
    precision, exponent, bias = split(ty)
    fraction = raw & ((1 << (precision - 1)) - 1)
    field = raw >> (precision - 1) & ((1 << exponent) - 1)
    sign = raw >> (precision - 1 + exponent) & 1
    if field == (1 << exponent) - 1:
        return NAN if fraction else (sign, INF)
    if field == 0:
        return sign, Fraction(0) if ftz else Fraction(fraction) * Fraction(2) ** (2 - bias - precision)
    return sign, Fraction(fraction | 1 << (precision - 1)) * Fraction(2) ** (field - bias - precision + 1)


def up(sign, floor, rest, mode):
    """Whether `floor + rest` rounds away from zero; `rest` is in [0, 1)."""
    if mode == "rna":
        return rest >= Fraction(1, 2)
    if mode == "rn":
        return rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1)
    return rest > 0 and mode == ("rm" if sign else "rp")


def log2_floor(x):
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def encode(x, ty, mode="rn", ftz=False, sat=False, relu=False):
    """The bits of `x`, rounded; `nan` stays NaN, whose bits PTX leaves open."""
    precision, exponent, bias = split(ty)
    if relu and x != NAN and x[0] == 1:
        x = (0, Fraction(0))
    if sat:
        if x == NAN or x[0] == 1:
            x = (0, Fraction(0))
        elif x[1] == INF or x[1] > 1:
            x = (0, Fraction(1))
    if x == NAN:
        return NAN
    sign, size = x
    infinity = ((1 << exponent) - 1) << (precision - 1)
    top = sign << (precision - 1 + exponent)
    if size == INF:
        return top | infinity
    if size == 0:
        return top
    e = max(log2_floor(size), 1 - bias)
    scaled = size / Fraction(2) ** (e - precision + 1)
    floor = math.floor(scaled)
    inexact = scaled != floor
    floor += up(sign, floor, scaled - floor, mode)
    raw = ((e + bias - 1) << (precision - 1)) + floor
    if raw >= infinity:
        # Rounded toward zero, a finite value stays finite.
        raw = infinity if mode in ("rn", "rna") or mode == ("rm" if sign else "rp") else infinity - 1
    if ftz and raw < 1 << (precision - 1):
        raw = 0
    # Saturation of a value that is rounded up to one needs no more.
    return top | raw


def is_zero(x):
    return x != NAN and x[1] == 0


def negate(x):
    return x if x == NAN else (1 - x[0], x[1])


def multiply(a, b):
    if NAN in (a, b):
        return NAN
    sign = a[0] ^ b[0]
    if INF in (a[1], b[1]):
        return NAN if is_zero(a) or is_zero(b) else (sign, INF)
    return sign, a[1] * b[1]


def add(a, b, mode):
    if NAN in (a, b):
        return NAN
    if a[1] == INF or b[1] == INF:
        if a[1] == b[1] and a[0] != b[0]:
            return NAN
        return a if a[1] == INF else b
    total = (-a[1] if a[0] else a[1]) + (-b[1] if b[0] else b[1])
    if total == 0:
        return (a[0] if a[0] == b[0] else int(mode == "rm")), Fraction(0)
    return int(total < 0), abs(total)


def divide(a, b):
    if NAN in (a, b) or (is_zero(a) and is_zero(b)) or (a[1] == INF and b[1] == INF):
        return NAN
    sign = a[0] ^ b[0]
    if a[1] == INF or is_zero(b):
        return sign, INF
    return sign, Fraction(0) if b[1] == INF else a[1] / b[1]


def root(x):
    """Exact where it is rational; otherwise off by less than 2^-1400 in the direction that rounds the same."""
    if x == NAN or is_zero(x):
        return x
    if x[0] == 1:
        return NAN
    if x[1] == INF:
        return x
    shift = 1 << 1400
    scaled = x[1].numerator * x[1].denominator * shift * shift
    floor = math.isqrt(scaled)
    below = Fraction(floor, x[1].denominator * shift)
    return 0, below if floor * floor == scaled else below + Fraction(1, 2 * x[1].denominator * shift)


def key(x):
    """Orders values, -0 below +0."""
    size = Fraction(2) ** 5000 if x[1] == INF else x[1]
    return (-size, 0) if x[0] else (size, 1)


def least(base, a, b, mods):
    """min, max: the other operand for NaN, unless `.NaN`."""
    if a == NAN or b == NAN:
        return NAN if "NaN" in mods else b if a == NAN else a
    return (min if base == "min" else max)(a, b, key=key)


def mode_of(mods):
    return next((m for m in mods if m in ("rn", "rna", "rz", "rm", "rp")), "rn")


def compute(base, mods, raw):
    """The result of one instruction that PTX defines to the bit, or None if it is none of these."""
    ty, mode, ftz, sat = mods[-1], mode_of(mods), "ftz" in mods, "sat" in mods
    if base == "copysign":
        sign = 1 << (31 if ty == "f32" else 63)
        return raw[0] & sign | raw[1] & (sign - 1)
    x = [decode(r, ty, ftz) for r in raw]
    one = (0, Fraction(1))
    exact = {
        "add": lambda: add(x[0], x[1], mode),
        "sub": lambda: add(x[0], negate(x[1]), mode),
        "mul": lambda: multiply(x[0], x[1]),
        "fma": lambda: add(multiply(x[0], x[1]), x[2], mode),
        "mad": lambda: add(multiply(x[0], x[1]), x[2], mode),
        "div": lambda: divide(x[0], x[1]),
        "rcp": lambda: divide(one, x[0]),
        "sqrt": lambda: root(x[0]),
        "neg": lambda: negate(x[0]),
        "abs": lambda: x[0] if x[0] == NAN else (0, x[0][1]),
        "min": lambda: least(base, x[0], x[1], mods),
        "max": lambda: least(base, x[0], x[1], mods),
    }
    if base not in exact:
        return None
    return encode(exact[base](), ty, mode, ftz, sat, "relu" in mods)


def holds(test, raw, ty):
    """testp"""
    precision, exponent, _ = split(ty)
    x = decode(raw, ty)
    subnormal = not (raw >> (precision - 1) & ((1 << exponent) - 1)) and not is_zero(x)
    return int(
        {
            "finite": x != NAN and x[1] != INF,
            "infinite": x != NAN and x[1] == INF,
            "number": x != NAN,
            "notanumber": x == NAN,
            # Zeros count as normal.
            "normal": x != NAN and x[1] != INF and not subnormal,
            "subnormal": x != NAN and subnormal,
        }[test]
    )

"""The approximate instructions: what they approximate, and how well PTX says they do.

The mathematics is in f64, whose errors are a millionth of the smallest bound here. The values are for comparison
within a bound only: a GPU's own bits are its own.
"""

import math
from fractions import Fraction

from .floats import INF, NAN, decode, divide, encode


def function(f, at_infinity, at_minus_infinity, at_zero=None):
    """`f` on finite values, and its limits, as a function of (sign, magnitude)."""

    def of(x):
        if x == NAN:
            return NAN
        if x[1] == INF:
            return at_minus_infinity if x[0] else at_infinity
        if x[1] == 0 and at_zero:
            return at_zero(x[0])
        y = f(float(-x[1] if x[0] else x[1]))
        if math.isnan(y):
            return NAN
        return int(math.copysign(1.0, y) < 0), INF if math.isinf(y) else Fraction(abs(y))

    return of


ZERO = Fraction(0)
FUNCTIONS = {
    "ex2": function(lambda x: 2.0**x, (0, INF), (0, ZERO)),
    "lg2": function(lambda x: math.log2(x) if x > 0 else math.nan, (0, INF), NAN, lambda _: (1, INF)),
    "sin": function(math.sin, NAN, NAN, lambda sign: (sign, ZERO)),
    "cos": function(math.cos, NAN, NAN),
    "tanh": function(math.tanh, (0, Fraction(1)), (1, Fraction(1)), lambda sign: (sign, ZERO)),
    "rcp": function(lambda x: 1 / x, (0, ZERO), (1, ZERO), lambda sign: (sign, INF)),
    "sqrt": function(lambda x: math.sqrt(x) if x >= 0 else math.nan, (0, INF), NAN, lambda sign: (sign, ZERO)),
    "rsqrt": function(lambda x: x**-0.5 if x > 0 else math.nan, (0, ZERO), NAN, lambda sign: (sign, INF)),
}

# From the PTX manual; to a relative error, half a unit of f32 is added, for the rounding of the expected value.
BOUNDS = {
    "rcp": "ulp 1",
    "div": "ulp 2",
    "ex2": "ulp 2",
    "sqrt": "rel 1.8e-7",  # 2^-23
    "rsqrt": "rel 2.0e-7",  # 2^-22.9
    "lg2": "abs 2.4e-7 rel 3.0e-7",  # 2^-22, absolute between 0.5 and 2, else relative
    "sin": "abs 7.0e-7",  # 2^-20.5
    "cos": "abs 7.0e-7",
    "tanh": "rel 4.9e-4",  # 2^-11
}


def bound(base, ty):
    """What PTX allows, as an `expect` line has it."""
    # On f64 there is only a start for an iteration: 20 bits.
    return "rel 1e-6" if ty == "f64" else BOUNDS[base]


def compute(base, mods, raw):
    """The value that the instruction approximates, rounded to nearest."""
    ty, ftz = mods[-1], "ftz" in mods
    x = [decode(r, ty, ftz) for r in raw]
    if base != "div":
        return encode(FUNCTIONS[base](x[0]), ty, "rn", ftz, "sat" in mods)
    a, b = x
    # `div.approx` multiplies by the reciprocal, which is zero beyond 2^126.
    if "approx" in mods and b != NAN and b[1] != INF and b[1] > Fraction(2) ** 126:
        b = (b[0], INF)
    return encode(divide(a, b), ty, "rn", ftz)

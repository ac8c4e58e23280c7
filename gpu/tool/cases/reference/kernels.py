"""Whole kernels in closed form: by file name, the expected contents of buffers, from those of all arguments."""

import math
import struct

from . import floats
from .integers import bits, byte, value


def bytes_of(words):
    return b"".join(w.to_bytes(8, "little") for w in words)


def word(data, at, n=8, signed=False):
    return int.from_bytes(data[at : at + n], "little", signed=signed)


def loads(given):
    source, out, left = bytes_of(given[0]), [], bytearray(bytes_of(given[2]))
    for t in range(4):
        x = source[16 * t : 16 * t + 16]
        words32 = [word(x, 4 * i, 4) for i in range(4)]
        out += [x[0], word(x, 7, 1, True), word(x, 2, 2), word(x, 6, 2, True), words32[1], word(x, 4, 4, True), word(x, 0)]
        out.append(bits(word(x, 4, 1, True), 32) | word(x, 4, 2) << 32)
        halves = [bits(word(x, 1, 1, True), 16), x[1], word(x, 8, 2), word(x, 10, 2)]
        out.append(sum(h << (16 * i) for i, h in enumerate(halves)))
        total = bits(word(x, 8, 2, True) + word(x, 10, 2, True), 32)
        out.append(sum(x[15 - i] << (8 * i) for i in range(4)) | total << 32)
        out += [word(x, 8), word(x, 0)]
        out += [words32[3] | words32[2] << 32, words32[1] | words32[0] << 32]
        at = 40 * t
        left[at + 1] = x[0]
        left[at + 10 : at + 12] = x[0:2]
        left[at + 20 : at + 24] = x[0:4]
        left[at + 31] = x[0]
        left[at + 32 : at + 36] = struct.pack("<HH", x[13], 0x1234)
    return {1: out, 2: [word(left, 8 * i) for i in range(20)]}


def b128(given):
    pairs = [given[0][2 * t : 2 * t + 2] for t in range(4)]
    out = []
    for t, (low, high) in enumerate(pairs):
        turned = [x >> 32 | (x & 0xFFFFFFFF) << 32 for x in (high, low)]
        out += [high, low, *pairs[3 - t], *turned]
    return {1: out}


def spaces(given):
    table = [-1, 2, -3, 4, -5, 6, -7, 8]
    out = []
    for t in range(8):
        j = 7 - t
        out += [given[1][0], -3, 0xDEADBEEF, given[4][0]]
        out += [table[t], bits(table[2], 16), 11, 12, 0]
        out += [given[5][j], j, 77 | t << 32, t | j << 32, 0]
        out += [0x040201 | t << 32, 32 | 128 << 32]  # 64 + 32 bytes, in units of 128
    return {0: out}


def ragged_loads(given):
    out = []
    for t in range(4):
        x = given[0][8 * t : 8 * t + 7]
        out += [x[6], x[5], x[4], x[6], x[0] - x[3], x[6] & 0xFFFFFF]
        out.append((x[6] >> 16 & 0xFF ^ 0x80) - 0x80)
        low, high = (5, 6) if t == 1 else (x[4] >> 16, x[5] & 0xFFFF)
        out.append(high | low << 16)
    return {1: out}


def blanks_and_braces(given):
    return {1: [word for t, x in enumerate(given[0]) for word in (x if t < 5 else 0x64, x >> 16)]}


def atomic(op, ty, old, b):
    x, y = value(old, ty), value(b, ty)
    return bits(
        {
            "add": lambda: x + y,
            "min": lambda: min(x, y),
            "max": lambda: max(x, y),
            "and": lambda: x & y,
            "or": lambda: x | y,
            "xor": lambda: x ^ y,
            "exch": lambda: y,
            "cas": lambda: 9 if x == y else x,
            "inc": lambda: 0 if x >= y else x + 1,
            "dec": lambda: y if x == 0 or x > y else x - 1,
        }[op](),
        int(ty[1:]),
    )


def atomics_float(given):
    """On global memory, f32 addition flushes subnormals; on shared memory it does not."""
    narrow, wide = [], []
    for old, b in zip(given[0], given[1]):
        for ftz in (True, False):
            both = (floats.decode(x, "f32", ftz) for x in (old, b))
            narrow += [old, floats.encode(floats.add(*both, "rn"), "f32", "rn", ftz)]
    for old, b in zip(given[2], given[3]):
        both = (floats.decode(x, "f64") for x in (old, b))
        wide += [old, floats.encode(floats.add(*both, "rn"), "f64")] * 2
    return {4: narrow, 5: wide}


ATOMICS = {
    32: "add.u32 add.s32 min.u32 min.s32 max.u32 max.s32 and.b32 or.b32 xor.b32 exch.b32 cas.b32 inc.u32 dec.u32",
    64: "add.u64 min.u64 min.s64 max.u64 max.s64 and.b64 or.b64 xor.b64 exch.b64 cas.b64",
}


def atomics(n):
    def left(given):
        out = []
        for old, b in zip(given[0], given[1]):
            for name in ATOMICS[n].split():
                op, ty = name.split(".")
                out += [old, atomic(op, ty, old, b)]
        return {2: out}

    return left


def atomics_contended(given):
    threads, blocks = 96, 3
    n = threads * blocks
    every = range(n)
    cells = [sum(range(threads)), threads - 1, math_xor(range(threads)), 0]
    down = 0
    for _ in range(threads):
        down = 6 if down == 0 or down > 6 else down - 1
    cells[3] = down
    # f32 counts exactly: 2 and 288 ones.
    last = [sum(every), n - 1, 0, 0xFFFFFFFF, 0, math_xor(every), n % 100]
    last += [floats.encode((0, floats.Fraction(2 + n)), "f32"), n, 3 * n]
    return {0: last, 1: cells * blocks, 2: [1] * n}


def math_xor(numbers):
    total = 0
    for x in numbers:
        total ^= x
    return total


def barriers(given):
    out, last = [], []
    for b in range(2):
        words = given[0][128 * b : 128 * b + 128]
        words = [words[t ^ 63] for t in range(128)]
        words = [w + (words[t - 96] if t >= 96 else 0) for t, w in enumerate(words)]
        words = [words[(t + 33) % 128] for t in range(128)]
        out += words
        last += list(range(48, 64)) + words[48:64]
    return {1: out, 2: last}


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
    return steps


def control(given):
    threads = range(48)
    added = lambda t: [1, 2, 8 if t < 20 else 4, 48, 32][t % 5]  # noqa: E731
    sums = [100 * (t + (t ^ 4)) if t % 2 else t + (t ^ 2) for t in threads]
    return {
        0: [collatz(t + 1) for t in threads],
        1: [2 * (1000 + added(t)) + t for t in threads],
        2: sums,
        3: [7 if t < 8 else 9 if t < 40 else 0 for t in threads],
    }


def calls(given):
    threads = range(40)
    totals = []
    for t in threads:
        total = t + 3 * t + 1000 - t  # -t as a signed byte
        totals.append(0 if t < 4 else total | 10 * total << 32)
    return {0: [t * t + 5 for t in threads], 1: totals, 2: [math.gcd(t, 84) if t % 3 else 0 for t in threads]}


def grids(given):
    out = []
    blocks = [(x, y, z) for z in range(2) for y in range(3) for x in range(2)]
    threads = [(x, y, z) for z in range(4) for y in range(2) for x in range(3)]
    for bx, by, bz in blocks:
        for lane, (x, y, z) in enumerate(threads):
            out += [x, y, z, 3, 2, 4, bx, by, bz, 2, lane % 32, 2]
    return {0: out}


def async_copy(given):
    source = b"".join(w.to_bytes(4, "little") for w in given[0])
    out = []
    for t in reversed(range(32)):
        copied = source[16 * t : 16 * t + 16]
        read = t % 9
        copied += source[8 * t : 8 * t + read] + bytes(8 - read) + source[4 * t : 4 * t + 4]
        out += [word(copied, 4 * i, 4) for i in range(7)]
    return {1: out}


def bulk_copy(given):
    rows = [given[0][4 * t : 4 * t + 4] for t in range(32)]
    sums = [(w + t) & 0xFFFFFFFF for t in range(32) for w in rows[31 - t]]
    return {1: sums, 2: [(old + new) & 0xFFFFFFFF for old, new in zip(given[2], sums)]}


def ldmatrix(given):
    """Lane 4g + t gets elements 2t and 2t + 1 of row g, transposed of column g; lane 8j + i names row i of matrix j."""
    words, order = given[0], given[1]

    def element(matrix, row, column):
        return words[4 * order[8 * matrix + row] + column // 2] >> (16 * (column % 2)) & 0xFFFF

    out = []
    for lane in range(32):
        g, t = lane // 4, lane % 4
        plain = [element(m, g, 2 * t) | element(m, g, 2 * t + 1) << 16 for m in range(4)]
        turned = [element(m, 2 * t, g) | element(m, 2 * t + 1, g) << 16 for m in range(4)]
        out += plain + turned + plain[:2] + turned[:1]
    return {2: out}


def integer(raw, ty):
    sign, size = floats.decode(raw, ty)
    return int(-size if sign else size)


def product(ty, a, b, c):
    """mma of one warp: the fragments of D, from those of A, B and C. The tables of the PTX manual."""
    left, right, sums = {}, {}, {}
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(4):
            row, part = g + 8 * (i % 2), i // 2
            if ty == "tf32":
                left[row, t + 4 * part] = integer(a[4 * lane + i] >> 13, ty)
            else:
                for half in range(2):
                    left[row, 2 * t + 8 * part + half] = integer(a[4 * lane + i] >> (16 * half) & 0xFFFF, ty)
            sums[g + 8 * (i // 2), 2 * t + i % 2] = integer(c[4 * lane + i], "f32")
        for i in range(2):
            if ty == "tf32":
                right[t + 4 * i, g] = integer(b[2 * lane + i] >> 13, ty)
            else:
                for half in range(2):
                    right[2 * t + 8 * i + half, g] = integer(b[2 * lane + i] >> (16 * half) & 0xFFFF, ty)
    depth = 8 if ty == "tf32" else 16
    out = []
    for lane in range(32):
        for i in range(4):
            row, column = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
            total = sum(left[row, k] * right[k, column] for k in range(depth)) + sums[row, column]
            out.append(floats.encode((int(total < 0), floats.Fraction(abs(total))), "f32"))
    return out


def mma(given):
    fragments = {"f16": given[0:2], "bf16": given[2:4], "tf32": given[4:6]}
    return {7: [word for ty, (a, b) in fragments.items() for word in product(ty, a, b, given[6])]}


def wgmma(given):
    """Both products, of 64 rows and 16 columns: the layouts and fragments of the PTX manual."""
    a, b, c, left, right, sums = given[:6]

    def half(words, at):
        return integer(words[at // 4] >> (8 * (at % 4)) & 0xFFFF, "f16")

    def signed(words, at):
        return value(words[at // 4] >> (8 * (at % 4)) & 0xFF, "s8")

    def row_of_a(row, k):
        chunk = k // 8 ^ (row * 32 // 128) % 2
        return half(a, row * 32 + chunk * 16 + k % 8 * 2)

    def fragment(row, k):
        lane = 32 * (row // 16) + 4 * (row % 8) + k % 16 // 4
        return signed(left, 16 * lane + 4 * (row // 8 % 2 + 2 * (k // 16)) + k % 4)

    floats_of_d, integers_of_d = [], []
    for thread in range(128):
        for i in range(8):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * (thread % 4) + i % 2
            total = integer(c[8 * thread + i], "f32")
            for k in range(16):
                at = k % 8 * 16 + k // 8 * 256 + column // 8 * 128 + column % 8 * 2
                total -= row_of_a(row, k) * half(b, at)
            floats_of_d.append(floats.encode((int(total < 0), floats.Fraction(abs(total))), "f32"))
            total = sums[8 * thread + i]
            for k in range(32):
                at = column % 8 * 16 + column // 8 * 256 + k // 16 * 128 + k % 16
                total += fragment(row, k) * signed(right, at)
            integers_of_d.append(bits(total, 32))
    return {6: floats_of_d + integers_of_d}


EXPECTED = {
    "async_copy": async_copy,
    "atomics_contended": atomics_contended,
    "atomics_float": atomics_float,
    "atomics_global32": atomics(32),
    "atomics_global64": atomics(64),
    "atomics_shared32": atomics(32),
    "atomics_shared64": atomics(64),
    "b128": b128,
    "bulk_copy": bulk_copy,
    "barriers": barriers,
    "blanks_and_braces": blanks_and_braces,
    "calls": calls,
    "control": control,
    "grids": grids,
    "ldmatrix": ldmatrix,
    "loads": loads,
    "mma": mma,
    "ragged_loads": ragged_loads,
    "spaces": spaces,
    "wgmma": wgmma,
}

"""Integer and bit instructions. Registers hold bits; each instruction reads them by its own type."""


def width(ty):
    """Bits of a PTX type: 32 for `s32`."""
    return int(ty.lstrip("bfsu").removesuffix("x2")) * (2 if ty.endswith("x2") else 1)


def signed(ty):
    return ty.startswith("s")


def bits(value, n):
    """The low `n` bits of an integer of any sign."""
    return value & ((1 << n) - 1)


def value(raw, ty):
    """The integer that `raw` means as type `ty`."""
    n = width(ty)
    raw = bits(raw, n)
    return raw - (1 << n) if signed(ty) and raw >> (n - 1) else raw


def bounds(ty):
    n = width(ty)
    return (-(1 << (n - 1)), (1 << (n - 1)) - 1) if signed(ty) else (0, (1 << n) - 1)


def clamp(x, ty):
    low, high = bounds(ty)
    return min(max(x, low), high)


def quotient(a, b):
    """Toward zero; PTX leaves division by zero open, and so the cases have none."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def byte(x, i):
    return x >> (8 * i) & 0xFF


def arithmetic(base, mods, raw):
    """add, sub, mul, mad, div, rem, min, max, neg, abs, sad and the 24-bit products."""
    ty = mods[-1]
    n = width(ty)
    x = [value(r, ty) for r in raw]
    if "wide" in mods:
        wide = ("s" if signed(ty) else "u") + str(2 * n)
        total = x[0] * x[1] + (value(raw[2], wide) if base == "mad" else 0)
        return bits(total, 2 * n)
    if base in ("mul", "mad"):
        total = x[0] * x[1]
        total = total >> n if "hi" in mods else value(total, ty)
        total += x[2] if base == "mad" else 0
    elif base in ("mul24", "mad24"):
        a, b = (value(r, ty[0] + "24") for r in raw[:2])
        total = a * b
        total = total >> 16 if "hi" in mods else value(total, ty)
        total += x[2] if base == "mad24" else 0
    else:
        total = {
            "add": lambda: x[0] + x[1],
            "sub": lambda: x[0] - x[1],
            "div": lambda: quotient(x[0], x[1]),
            "rem": lambda: x[0] - quotient(x[0], x[1]) * x[1],
            "min": lambda: min(x[0], x[1]),
            "max": lambda: max(x[0], x[1]),
            "neg": lambda: -x[0],
            "abs": lambda: abs(x[0]),
            "sad": lambda: x[2] + abs(x[0] - x[1]),
        }[base]()
    return bits(clamp(total, ty) if "sat" in mods else total, n)


def carry(base, mods, raw, flag):
    """The instructions with `.cc`, and addc, subc, madc: the result and the carry that follows."""
    ty = mods[-1]
    n = width(ty)
    with_carry = flag if base.endswith("c") else 0
    if base.startswith("sub"):
        total = bits(raw[0], n) - bits(raw[1], n) - with_carry
    elif base.startswith("mad"):
        product = value(raw[0], ty) * value(raw[1], ty)
        half = product >> n if "hi" in mods else product
        total = bits(half, n) + bits(raw[2], n) + with_carry
    else:
        total = bits(raw[0], n) + bits(raw[1], n) + with_carry
    return bits(total, n), (total >> n & 1 if "cc" in mods else flag)


def shift(base, mods, raw):
    """shl, shr: counts beyond the width clear the register, or fill it with the sign."""
    ty = mods[-1]
    n = width(ty)
    x, count = value(raw[0], ty), bits(raw[1], 32)
    return bits(x << min(count, n) if base == "shl" else x >> min(count, n), n)


def funnel(mods, raw):
    a, b, count = (bits(r, 32) for r in raw)
    count = count & 31 if "wrap" in mods else min(count, 32)
    pair = b << 32 | a
    return bits((pair << count) >> 32 if "l" in mods else pair >> count, 32)


def logic(base, mods, raw):
    n = width(mods[-1])
    a = bits(raw[0], n)
    if base == "not":
        return bits(~a, n)
    if base == "cnot":
        return int(a == 0)
    b = bits(raw[1], n)
    return {"and": a & b, "or": a | b, "xor": a ^ b}[base]


def lop3(raw):
    a, b, c, table = raw
    return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))


def counted(count, n):
    """The bits of a place or length that count: the manual says eight; of fields of 64 bits an RTX 3060 takes all."""
    return count & 0xFF if n == 32 else count


def extract(mods, raw):
    """bfe, as the manual's pseudocode has it, but for 64 bits."""
    ty = mods[-1]
    n = width(ty)
    a, pos, length = bits(raw[0], n), counted(raw[1], n), counted(raw[2], n)
    if not signed(ty) or length == 0:
        sign = 0
    else:
        sign = a >> min(pos + length - 1, n - 1) & 1
    return sum((a >> (pos + i) & 1 if i < length and pos + i < n else sign) << i for i in range(n))


def insert(mods, raw):
    """bfi, as the manual's pseudocode has it, but for 64 bits."""
    n = width(mods[-1])
    a, out, pos, length = raw[0], bits(raw[1], n), counted(raw[2], n), counted(raw[3], n)
    for i in range(min(length, n)):
        if pos + i < n:
            out = out & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
    return out


def find(mods, raw):
    """bfind: the highest bit that differs from the sign."""
    ty = mods[-1]
    n = width(ty)
    a = value(raw[0], ty)
    at = (~a if a < 0 else a).bit_length() - 1
    if at < 0:
        return 0xFFFFFFFF
    return n - 1 - at if "shiftamt" in mods else at


def count(base, mods, raw):
    n = width(mods[-1])
    a = bits(raw[0], n)
    if base == "popc":
        return a.bit_count()
    if base == "clz":
        return n - a.bit_length()
    return int(f"{a:0{n}b}"[::-1], 2)  # brev


def nth_set(raw):
    """fns, as the manual's pseudocode has it."""
    mask, base, offset = raw[0], raw[1], value(raw[2], "s32")
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    at, step, left = base, (1 if offset > 0 else -1), abs(offset)
    while 0 <= at < 32:
        left -= mask >> at & 1
        if left == 0:
            return at
        at += step
    return 0xFFFFFFFF


def mask(mods, raw):
    """bmsk"""
    start, length = (r & 31 if "wrap" in mods else min(r, 32) for r in raw)
    return bits(((1 << length) - 1) << start, 32)


def extend(mods, raw):
    """szext"""
    n = raw[1] & 31 if "wrap" in mods else min(raw[1], 32)
    return 0 if n == 0 else bits(value(raw[0], mods[-1][0] + str(n)), 32)


def permute(mods, raw):
    a, b, c = raw
    pool = [byte(b << 32 | a, i) for i in range(8)]
    if mods[-1] == "b32":
        picks = [c >> (4 * i) & 0xF for i in range(4)]
    else:
        # The table of the manual, most significant byte first.
        rows = {
            "f4e": ["3210", "4321", "5432", "6543"],
            "b4e": ["5670", "6701", "7012", "0123"],
            "rc8": ["0000", "1111", "2222", "3333"],
            "ecl": ["3210", "3211", "3222", "3333"],
            "ecr": ["0000", "1110", "2210", "3210"],
            "rc16": ["1010", "3232", "1010", "3232"],
        }
        picks = [int(p) for p in reversed(rows[mods[-1]][c & 3])]
    out = 0
    for i, pick in enumerate(picks):
        chosen = pool[pick & 7]
        if pick & 8:
            chosen = 0xFF if chosen & 0x80 else 0
        out |= chosen << (8 * i)
    return out


def dot(base, mods, raw):
    """dp4a, dp2a"""
    of_a, of_b = (m[0] for m in mods[-2:])
    a, b, c = raw
    if base == "dp4a":
        terms = [value(byte(a, i), of_a + "8") * value(byte(b, i), of_b + "8") for i in range(4)]
    else:
        at = 2 if "hi" in mods else 0
        terms = [value(a >> (16 * i), of_a + "16") * value(byte(b, at + i), of_b + "8") for i in range(2)]
    return bits(c + sum(terms), 32)


def absolute_differences(base, mods, raw):
    """vabsdiff2, vabsdiff4 on unsigned lanes"""
    n = 32 // int(base[-1])
    a, b, c = raw
    lanes = [(at, abs(bits(a >> at, n) - bits(b >> at, n))) for at in range(0, 32, n)]
    if "add" in mods:
        return bits(c + sum(d for _, d in lanes), 32)
    return sum(d << at for at, d in lanes)


def compute(base, mods, raw):
    """The result of one integer instruction, or None if it is not one."""
    if base in ("add", "sub", "mul", "mad", "div", "rem", "min", "max", "neg", "abs", "sad", "mul24", "mad24"):
        return arithmetic(base, mods, raw)
    if base in ("shl", "shr"):
        return shift(base, mods, raw)
    if base in ("and", "or", "xor", "not", "cnot"):
        return logic(base, mods, raw)
    if base in ("popc", "clz", "brev"):
        return count(base, mods, raw)
    if base in ("dp4a", "dp2a"):
        return dot(base, mods, raw)
    if base in ("vabsdiff2", "vabsdiff4"):
        return absolute_differences(base, mods, raw)
    if base == "lop3":
        return lop3(raw)
    if base == "fns":
        return nth_set(raw)
    by_mods = {"shf": funnel, "bfe": extract, "bfi": insert, "bfind": find, "bmsk": mask, "szext": extend, "prmt": permute}
    return by_mods[base](mods, raw) if base in by_mods else None

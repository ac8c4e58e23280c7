"""Exchange between the threads of a warp or a block. All threads take part, unless a mask leaves some out."""

from .integers import bits, value

INSTRUCTIONS = {"shfl", "vote", "match", "redux", "activemask", "elect", "bar", "barrier"}


def special(name, n):
    """A special register in each thread of one block of `n` threads in x."""
    register, _, axis = name.partition(".")
    threads = range(n)
    per_lane = {
        "laneid": lambda t: t % 32,
        "warpid": lambda t: t // 32,
        "lanemask_eq": lambda t: 1 << t % 32,
        "lanemask_lt": lambda t: (1 << t % 32) - 1,
        "lanemask_le": lambda t: (2 << t % 32) - 1,
        "lanemask_gt": lambda t: bits(-(2 << t % 32), 32),
        "lanemask_ge": lambda t: bits(-(1 << t % 32), 32),
    }
    if register in per_lane:
        return [per_lane[register](t) for t in threads]
    of_x = {"tid": lambda t: t, "ntid": lambda t: n, "ctaid": lambda t: 0, "nctaid": lambda t: 1}[register]
    beyond = {"tid": 0, "ntid": 1, "ctaid": 0, "nctaid": 1}[register]
    return [of_x(t) if axis == "x" else beyond for t in threads]


def shuffle(mode, lane, b, c, value_of):
    """Value and predicate of one lane, as the manual's pseudocode has it."""
    clamp, segment = c & 0x1F, c >> 8 & 0x1F
    b &= 0x1F
    highest = lane & segment | clamp & ~segment & 0x1F
    lowest = lane & segment
    if mode == "up":
        j = lane - b
        inside = j >= highest
    elif mode == "down":
        j = lane + b
        inside = j <= highest
    elif mode == "bfly":
        j = lane ^ b
        inside = j <= highest
    else:
        j = lowest | b & ~segment & 0x1F
        inside = j <= highest
    return value_of(j if inside else lane), int(inside)


def compute(block, base, mods, operands, active):
    """(register, values) for each target."""
    targets = operands[0].split("|")
    sources = [block.read(o) for o in operands[1:]]
    if base in ("bar", "barrier"):
        return barrier(block.n, mods, targets[0], sources) if "red" in mods else []
    columns = []
    for first in range(0, block.n, 32):
        lanes = [t for t in range(first, min(first + 32, block.n)) if active[t]]
        columns += warp(base, mods, [[s[t] for t in lanes] for s in sources], [t - first for t in lanes])
        if len(lanes) != min(32, block.n - first):
            raise ValueError(f"a guarded {base} has no reference")
    return list(zip(targets, zip(*columns)))


def barrier(n, mods, target, sources):
    """bar.red over the whole block."""
    holds = sources[-1]
    result = {"popc": sum(holds), "and": int(all(holds)), "or": int(any(holds))}[mods[mods.index("red") + 1]]
    return [(target, [result] * n)]


def warp(base, mods, sources, lanes):
    """One tuple of results for each lane. The last source, where there is one, is the mask of members."""
    if base == "activemask":
        return [(sum(1 << lane for lane in lanes),)] * len(lanes)
    members = [lane for lane in lanes if sources[-1][lane] >> lane & 1]
    if base == "shfl":
        a, b, c = sources[:3]
        return [shuffle(mods[1], lane, b[lane], c[lane], lambda j: a[j]) for lane in lanes]
    if base == "elect":
        return [(min(members), int(lane == min(members))) for lane in lanes]
    a = sources[0]

    def among(lane):
        return [j for j in lanes if sources[-1][lane] >> j & 1]

    if base == "vote":
        return [(vote(mods[1], [a[j] for j in among(lane)], among(lane)),) for lane in lanes]
    if base == "match":
        return [match(mods[0], a, lane, among(lane)) for lane in lanes]
    return [(reduce(mods[1], mods[-1], [a[j] for j in among(lane)]),) for lane in lanes]


def vote(mode, holds, lanes):
    return {
        "all": int(all(holds)),
        "any": int(any(holds)),
        "uni": int(len(set(holds)) == 1),
        "ballot": sum(h << j for h, j in zip(holds, lanes)),
    }[mode]


def match(mode, a, lane, members):
    if mode == "any":
        return (sum(1 << j for j in members if a[j] == a[lane]),)
    same = all(a[j] == a[lane] for j in members)
    return (sum(1 << j for j in members) if same else 0), int(same)


def reduce(op, ty, raw):
    x = [value(r, ty if ty[0] != "b" else "u32") for r in raw]
    total = x[0]
    for y in x[1:]:
        total = {
            "add": lambda: total + y,
            "min": lambda: min(total, y),
            "max": lambda: max(total, y),
            "and": lambda: total & y,
            "or": lambda: total | y,
            "xor": lambda: total ^ y,
        }[op]()
    return bits(total, 32)

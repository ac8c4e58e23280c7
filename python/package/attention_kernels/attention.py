"""The function `attention`, and the checks of its options."""

import json
import operator

from .library import library_of

DEVICES = ("cpu", "cuda", "sim")


def attention(
    q,
    k,
    v,
    *,
    causal=False,
    scale=None,
    window=None,
    key_lengths=None,
    mask=None,
    blocks=None,
    dropout_p=0.0,
    seed=None,
    device=None,
    return_lse=False,
    return_profile=False,
):
    """Attention: `softmax(scale * q @ k.T + mask) @ v`, without the matrix of scores.

    `q` is `[B, H, nq, D]`; `k` and `v` are `[B, H_kv, nk, D]`, where `H` is a multiple of `H_kv`. They are arrays of NumPy,
    tensors of PyTorch, or anything else with `__dlpack__`, in any memory layout, and are not copied. The result `o`,
    `[B, H, nq, D]`, is of the same library; of one that has no `__array_namespace__` it is NumPy's. D is 1 to 256.

    Options:

    - `causal`: query i sees only the keys j <= i + nk - nq: the last query sees all keys.
    - `scale`: factor of the scores; 1 / sqrt(D) if None.
    - `window`: `(left, right)`: query i sees the keys from i + nk - nq - left to i + nk - nq + right. None is no bound.
    - `key_lengths`: number of keys of each sequence, B integers. Rows of `k` and `v` from there on are never read.
    - `mask`: float32, `[B or 1, H or 1, nq, nk]`, added to the scaled scores. It gets no gradient.
    - `blocks`: bool, `[B or 1, H or 1, ceil(nq / 64), ceil(nk / 64)]`: the blocks of 64 x 64 scores that are seen.
    - `dropout_p`: probability at which a weight is dropped. `seed` says which ones; if None, PyTorch's or NumPy's global
      generator draws it.

    `device` is where the tensors lie, unless given. The CPU computes in float32 on all cores. CUDA tensors are computed in
    float32, float16 or bfloat16 on their device, in PyTorch on its current stream; `mask` and `blocks` are copied there from the
    CPU. `device="sim"` runs the same kernels on tensors of the CPU, on a simulated GPU, which checks every access. It is
    thousands of times slower, and meant for small problems.

    With `return_lse=True` the result is a tuple whose second part is the log-sum-exp of each row of scores, `[B, H, nq]`,
    float32. A query that sees no key has o = 0 and lse = -inf. With `return_profile=True` and `device="sim"` the last part is a
    dict: `seconds`, the modelled time of all launches, and `launches`, their counters.

    PyTorch tensors that require a gradient get one: `o` has a backward pass, `lse` has none.

    Raises TypeError or ValueError that names the argument; DeviceError if a kernel fails.
    """
    if device is not None and device not in DEVICES:
        raise ValueError(f'`device` is {device!r}, expected "cpu", "cuda" or "sim"')
    if return_profile and device != "sim":
        raise ValueError('`return_profile` needs `device="sim"`: other devices count nothing')
    library = library_of(q, k=k, v=v)
    options = {
        "causal": bool(causal),
        "scale": scale,
        "window": _window(window),
        "key_lengths": None if key_lengths is None else [count("key_lengths", n) for n in key_lengths],
        "mask": mask,
        "blocks": blocks,
        "dropout": _dropout(dropout_p, seed),
    }
    o, lse, launches = library.attention(q, k, v, options, device or library.device_of(q), return_profile)
    results = [o]
    if return_lse:
        results.append(lse)
    if return_profile:
        results.append(_profile(launches))
    return results[0] if len(results) == 1 else tuple(results)


def count(argument, value):
    """`value` as an integer that is not negative."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"`{argument}` has {value!r}, expected an integer") from None
    if number < 0:
        raise ValueError(f"`{argument}` has {number}, expected 0 or more")
    return number


def _window(window):
    if window is None:
        return None
    try:
        left, right = window
    except (TypeError, ValueError):
        raise TypeError(f"`window` is {window!r}, expected None or (left, right)") from None
    return tuple(None if side is None else count("window", side) for side in (left, right))


def _dropout(probability, seed):
    """The probability, and the seed if the caller gave one."""
    if probability == 0:
        return None
    if seed is not None and count("seed", seed) >= 1 << 64:
        raise ValueError(f"`seed` is {seed}, expected less than 2**64")
    return probability, seed


def _profile(launches):
    launches = [json.loads(launch) for launch in launches]
    return {"seconds": sum(launch["figures"]["time"]["value"] for launch in launches), "launches": launches}

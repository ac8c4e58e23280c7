from collections.abc import Iterable
from typing import Any, Literal, TypeVar, overload

from ._native import DeviceError as DeviceError

__all__ = ["DeviceError", "attention", "flash_attn_func"]

Array = TypeVar("Array")  # numpy.ndarray or torch.Tensor

@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: Iterable[int] | None = None,
    mask: Any = None,
    blocks: Any = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    device: Literal["cpu", "sim"] = "cpu",
    return_lse: Literal[False] = False,
    return_profile: Literal[False] = False,
) -> Array: ...
@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: Iterable[int] | None = None,
    mask: Any = None,
    blocks: Any = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    device: Literal["cpu", "sim"] = "cpu",
    return_lse: Literal[True],
    return_profile: Literal[False] = False,
) -> tuple[Array, Array]: ...
@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: Iterable[int] | None = None,
    mask: Any = None,
    blocks: Any = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    device: Literal["sim"],
    return_lse: Literal[False] = False,
    return_profile: Literal[True],
) -> tuple[Array, dict[str, Any]]: ...
@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    key_lengths: Iterable[int] | None = None,
    mask: Any = None,
    blocks: Any = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    device: Literal["sim"],
    return_lse: Literal[True],
    return_profile: Literal[True],
) -> tuple[Array, Array, dict[str, Any]]: ...
@overload
def flash_attn_func(
    q: Array,
    k: Array,
    v: Array,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: Literal[False] = False,
) -> Array: ...
@overload
def flash_attn_func(
    q: Array,
    k: Array,
    v: Array,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    *,
    return_attn_probs: Literal[True],
) -> tuple[Array, Array, None]: ...

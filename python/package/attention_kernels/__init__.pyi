from collections.abc import Iterable, Sequence
from typing import Any, Literal, SupportsIndex, TypeVar, overload

from ._native import DeviceError as DeviceError

__all__ = ["DeviceError", "attention", "flash_attn_func", "flash_attn_with_kvcache", "launch"]

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
    device: Literal["cpu", "cuda", "sim"] | None = None,
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
    device: Literal["cpu", "cuda", "sim"] | None = None,
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
@overload
def flash_attn_with_kvcache(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    k: Array | None = None,
    v: Array | None = None,
    rotary_cos: Array | None = None,
    rotary_sin: Array | None = None,
    cache_seqlens: int | Iterable[int] | None = None,
    cache_batch_idx: Iterable[int] | None = None,
    cache_leftpad: Any = None,
    block_table: Iterable[Iterable[int]] | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: Literal[False] = False,
    *,
    device: Literal["cpu", "sim"] = "cpu",
) -> Array: ...
@overload
def flash_attn_with_kvcache(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    k: Array | None = None,
    v: Array | None = None,
    rotary_cos: Array | None = None,
    rotary_sin: Array | None = None,
    cache_seqlens: int | Iterable[int] | None = None,
    cache_batch_idx: Iterable[int] | None = None,
    cache_leftpad: Any = None,
    block_table: Iterable[Iterable[int]] | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    *,
    return_softmax_lse: Literal[True],
    device: Literal["cpu", "sim"] = "cpu",
) -> tuple[Array, Array]: ...
@overload
def launch(
    source: str,
    kernel: str,
    *arguments: Any,
    grid: SupportsIndex | Sequence[SupportsIndex],
    block: SupportsIndex | Sequence[SupportsIndex],
    return_profile: Literal[False] = False,
) -> list[Any]: ...
@overload
def launch(
    source: str,
    kernel: str,
    *arguments: Any,
    grid: SupportsIndex | Sequence[SupportsIndex],
    block: SupportsIndex | Sequence[SupportsIndex],
    return_profile: Literal[True],
) -> tuple[list[Any], dict[str, Any]]: ...

"""The compiled part of the package."""

from collections.abc import Sequence
from typing import Any

MAX_QUERIES: int
MAX_SPLITS: int
MIN_PAGE: int
MAX_PAGE: int

class DeviceError(RuntimeError):
    """The driver refused a call, or a kernel failed. The text is the driver's report."""

class Exported:
    """A result, whose memory is taken once."""

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Options:
    """Masks, scale and dropout of a call."""

    def __new__(
        cls,
        *,
        causal: bool,
        scale: float | None,
        window: tuple[int | None, int | None] | None,
        key_lengths: Sequence[int] | None,
        mask: Any,
        blocks: Any,
        dropout: tuple[float, int] | None,
    ) -> Options: ...

def cpu_forward(q: Any, k: Any, v: Any, options: Options) -> tuple[Exported, Exported]: ...
def cpu_backward(q: Any, k: Any, v: Any, options: Options, o: Any, lse: Any, d_o: Any) -> list[Exported]: ...
def sim_forward(
    q: Any, k: Any, v: Any, options: Options, profile: bool
) -> tuple[Exported, Exported, list[str]]: ...
def sim_backward(q: Any, k: Any, v: Any, options: Options, o: Any, lse: Any, d_o: Any) -> list[Exported]: ...
def sim_decode(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    lengths: Sequence[int],
    table: tuple[Sequence[int], int] | None,
    scale: float | None,
    window: int | None,
    splits: int,
) -> tuple[Exported, Exported]: ...
def sim_launch(
    source: str,
    kernel: str,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
) -> tuple[list[Exported], str]: ...
def cuda_forward(
    q: Any, k: Any, v: Any, options: Options, o: Any, lse: Any, stream: int | None
) -> None: ...
def cuda_backward(
    q: Any,
    k: Any,
    v: Any,
    options: Options,
    o: Any,
    lse: Any,
    d_o: Any,
    dq: Any,
    dk: Any,
    dv: Any,
    stream: int,
) -> None: ...

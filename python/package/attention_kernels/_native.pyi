"""The compiled part of the package."""

from collections.abc import Sequence
from typing import Any

class DeviceError(RuntimeError):
    """The simulated driver refused a call, or a kernel failed. The text is the driver's report."""

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

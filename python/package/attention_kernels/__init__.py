"""Attention for NumPy and PyTorch: on the CPU, and by CUDA kernels on a simulated GPU."""

from ._native import DeviceError
from .attention import attention
from .flash_attn import flash_attn_func

__all__ = ["DeviceError", "attention", "flash_attn_func"]

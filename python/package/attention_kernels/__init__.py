"""Attention for NumPy and PyTorch: on the CPU, and by CUDA kernels on a GPU or a simulated one."""

from ._native import DeviceError
from .attention import attention
from .flash_attn import flash_attn_func
from .kvcache import flash_attn_with_kvcache
from .launch import launch

__all__ = ["DeviceError", "attention", "flash_attn_func", "flash_attn_with_kvcache", "launch"]

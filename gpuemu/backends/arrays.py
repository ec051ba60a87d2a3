"""Arrays in, arrays of the same kind out.

NumPy, CuPy, and whatever speaks DLPack or the CUDA array interface are accepted. 8-bit floats are
unknown to CuPy and often to DLPack: `to_numpy` and `to_cupy` move such arrays by their bits, as
unsigned integers of the same width.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..errors import BadType, BadValue


@cache
def _library(owner: type[Any]) -> str:
    if issubclass(owner, (np.ndarray, np.generic)):
        return "numpy"
    return owner.__module__.partition(".")[0].removesuffix("lib")


def kind(array: Any) -> str:
    """Return the library of an array: "numpy", "cupy", "torch", "jax" or another module's name."""
    owner: Any = type(array)
    return _library(owner)


def on_cuda(array: Any) -> bool:
    """Tell whether an array lives on an NVIDIA device."""
    library = kind(array)
    if library in ("numpy", "cupy"):  # asking CuPy for its interface takes microseconds
        return library == "cupy"
    if library == "torch":
        return bool(array.is_cuda)
    return hasattr(array, "__cuda_array_interface__")


def _is_array(array: Any) -> bool:
    return hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__")


def _torch_bits(tensor: Any) -> tuple[Any, np.dtype[Any] | None]:
    """Return a tensor in a dtype that NumPy and CuPy know, and the ml_dtypes dtype it means."""
    import ml_dtypes
    import torch

    narrow = {
        "bfloat16": (torch.int16, ml_dtypes.bfloat16),
        "float8_e4m3fn": (torch.uint8, ml_dtypes.float8_e4m3fn),
        "float8_e5m2": (torch.uint8, ml_dtypes.float8_e5m2),
        "float8_e4m3fnuz": (torch.uint8, ml_dtypes.float8_e4m3fnuz),
        "float8_e5m2fnuz": (torch.uint8, ml_dtypes.float8_e5m2fnuz),
    }
    tensor = tensor.detach()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in narrow:
        return tensor, None
    integer, dtype = narrow[name]
    return tensor.view(integer), np.dtype(dtype)


def to_numpy(array: Any, name: str = "array") -> np.ndarray[Any, Any]:
    """Return an array as NumPy: itself, a view where memory can be shared, else a copy."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    if not _is_array(array):
        raise BadType(
            f"{name} is a {type(array).__name__}; legal: a NumPy or CuPy array, or any array "
            "with DLPack or __cuda_array_interface__ (PyTorch, JAX)"
        )
    library = kind(array)
    if library == "cupy":
        return np.asarray(array.get())
    if library == "torch":
        tensor, dtype = _torch_bits(array)
        result: np.ndarray[Any, Any] = tensor.cpu().numpy()
        return result if dtype is None else result.view(dtype)
    return np.asarray(array)


def to_cupy(array: Any, name: str = "array") -> Any:
    """Return an array as CuPy on the current device; dtypes that it lacks travel as their bits.

    Raises
    ------
    BadType
        For what is no array.
    BadValue
        For an array of another device: kernels run on the current one.
    """
    import cupy

    if isinstance(array, cupy.ndarray):
        found = array
    elif on_cuda(array):
        found = cupy.asarray(_torch_bits(array)[0] if kind(array) == "torch" else array)
    else:
        return cupy.asarray(as_unsigned(to_numpy(array, name)))
    there, here = found.device.id, cupy.cuda.Device().id
    if there != here:
        raise BadValue(
            f"{name} lies on CUDA device {there}, the current one is {here}; legal: arrays of the "
            f"current device: call inside `with cupy.cuda.Device({there}):`"
        )
    return found


def as_unsigned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of an array whose dtype is not NumPy's own as unsigned integers.

    Others are returned unchanged. A dtype of ml_dtypes may call itself a float: its `kind` does not
    tell.
    """
    if issubclass(array.dtype.type, (np.number, np.bool_)):
        return array
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def like(result: Any, template: Any) -> Any:
    """Return a result (NumPy or CuPy) as the kind of array that the caller gave.

    Torch and JAX get it through DLPack; unsigned bits that they have no dtype for arrive as
    int32/int64.
    """
    library = kind(template)
    if library == "numpy":
        return to_numpy(result)
    if library == "cupy":
        return to_cupy(result)
    if library == "torch":
        return _to_torch(result, template)
    if library in ("jax", "jaxlib"):
        import jax.numpy

        return jax.numpy.asarray(to_numpy(result))
    return (
        type(template)(to_numpy(result))
        if not hasattr(template, "__dlpack__")
        else to_numpy(result)
    )


def _to_torch(result: Any, template: Any) -> Any:
    import torch

    signed = {"uint16": np.int16, "uint32": np.int32, "uint64": np.int64}
    floats = {"bfloat16": torch.bfloat16}
    name = np.dtype(result.dtype).name
    if name in signed:
        result = result.view(signed[name])
    elif name in floats:
        return _to_torch(result.view(np.uint16), template).view(floats[name])
    tensor = torch.as_tensor(result) if kind(result) == "numpy" else torch.from_dlpack(result)
    return tensor.to(template.device)

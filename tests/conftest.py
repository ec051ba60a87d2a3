"""Shared by every test: the `gpu` marker."""

from __future__ import annotations

import os

import pytest

from gpuemu.backends import cuda


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none, with the reason; fail it where promised."""
    reason = cuda.why_unavailable()
    if not reason or os.environ.get("GPUEMU_REQUIRE_GPU") == "1":
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=f"no CUDA device: {reason}"))

"""What `make bench` writes beside the times: the GPU, CUDA, and the versions of the project."""

from __future__ import annotations

from typing import Any

import gpuemu


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    """Add device, CUDA and versions to pytest-benchmark's machine_info."""
    facts = gpuemu.info()
    machine_info["gpuemu"] = facts["gpuemu"]
    machine_info["packages"] = facts["packages"]
    machine_info["nvrtc"] = facts["nvrtc"]
    machine_info["compiler"] = facts["compiler"]
    machine_info["gpu"] = facts["devices"][0] if facts["devices"] else {}

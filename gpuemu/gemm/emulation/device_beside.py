"""A program on two streams: what only moves bytes runs beside the int8 products."""

from __future__ import annotations

import threading
from typing import Any

from .device_launch import Running
from .device_steps import Program, Stage

#: Of the second stream: its blocks go first where both have some waiting, for the products fill
#: the device.
PRIORITY = -1
_local = threading.local()


def _beside() -> Any:
    """Return this thread's second stream of the current device."""
    import cupy

    streams = _local.__dict__.setdefault("streams", {})
    device = cupy.cuda.runtime.getDevice()
    if device not in streams:
        streams[device] = cupy.cuda.Stream(non_blocking=True, priority=PRIORITY)
    return streams[device]


def run(program: Program, running: Running) -> None:
    """Enqueue a program's stages on the caller's stream and beside it; the former waits at the end
    for the latter.
    """
    import cupy

    def mark(stream: Any) -> Any:
        event = cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    streams = cupy.cuda.get_current_stream(), _beside()
    lanes = running, running._replace(stream=streams[1].ptr)
    streams[1].wait_event(mark(streams[0]))
    done: dict[Stage, Any] = {}
    for stage in program.stages:
        stream, lane = streams[stage.beside], lanes[stage.beside]
        for earlier in stage.after:
            if earlier.beside != stage.beside:
                stream.wait_event(done[earlier])
        for step in stage.steps:
            step(lane)
        done[stage] = mark(stream)
    streams[0].wait_event(mark(streams[1]))

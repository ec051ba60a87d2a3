"""GEMM problem descriptors in the image of cuBLASDx: operators, traits, pipelines, ragged shapes,
emulation.

Examples
--------
>>> import gpuemu.gemm as gemm
>>> d = gemm.Size(128, 128, 32) + gemm.Precision("f16", "f16", "f32") + gemm.Function("MM")
>>> d = d + gemm.SM(900)
>>> d.mma_class, d.is_complete, d.is_complete_execution
('mma_sync', True, False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arithmetic import Arithmetic, arithmetic
from .axes import Axis
from .comparison import Comparison, compare
from .descriptor import Descriptor
from .execute import execute, matmul
from .operators import (
    MAX_ALIGNMENT,
    SM,
    Alignment,
    Arrangement,
    Block,
    BlockDim,
    BlocksPerCluster,
    EnableInputStreaming,
    Function,
    LeadingDimension,
    Precision,
    RequiredMantissaBits,
    Size,
    StaticBlockDim,
    Thread,
    TransposeMode,
    Type,
    WithPipeline,
    col_major,
    row_major,
)
from .pipeline import Pipeline, Refusal, make_pipeline, suggest_pipeline
from .pipeline_rules import CODES, PipelineError
from .ragged import RaggedPlan, plan_ragged
from .sweep import SweepTable, sweep
from .target import Target

if TYPE_CHECKING:
    from .emulation import emulated_matmul, emulation_report

_LAZY = ("emulated_matmul", "emulation_report")


def __getattr__(name: str) -> Any:
    """Import the emulation only when it is asked for."""
    if name in _LAZY:
        from . import emulation

        return getattr(emulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CODES",
    "MAX_ALIGNMENT",
    "SM",
    "Alignment",
    "Arithmetic",
    "Arrangement",
    "Axis",
    "Block",
    "BlockDim",
    "BlocksPerCluster",
    "Comparison",
    "Descriptor",
    "EnableInputStreaming",
    "Function",
    "LeadingDimension",
    "Pipeline",
    "PipelineError",
    "Precision",
    "RaggedPlan",
    "Refusal",
    "RequiredMantissaBits",
    "Size",
    "StaticBlockDim",
    "SweepTable",
    "Target",
    "Thread",
    "TransposeMode",
    "Type",
    "WithPipeline",
    "arithmetic",
    "col_major",
    "compare",
    "emulated_matmul",
    "emulation_report",
    "execute",
    "make_pipeline",
    "matmul",
    "plan_ragged",
    "row_major",
    "suggest_pipeline",
    "sweep",
]

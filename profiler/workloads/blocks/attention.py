"""The attention block of one layer: norm to residual sum."""

from energyopt.profiler.workloads.architecture import Norm, Position
from energyopt.profiler.workloads.blocks.model import Model
from energyopt.profiler.workloads.blocks.segments import ForWeight, Segment
from energyopt.profiler.workloads.interface import Kernel
from energyopt.profiler.workloads.job import AttentionKind, Recompute
from energyopt.profiler.workloads.layers.attention import fused_attention
from energyopt.profiler.workloads.layers.linear import Linear, linear
from energyopt.profiler.workloads.layers.norm import norms
from energyopt.profiler.workloads.layers.residual import residual_add
from energyopt.profiler.workloads.layers.rope import rope
from energyopt.profiler.workloads.layers.unfused_attention import unfused_attention

Pair = tuple[Kernel | None, Kernel | None]


def attention_forward(model: Model) -> list[Segment]:
    """Projections of queries, keys and values; the core; the output projection."""
    core, _ = _core(model)
    return [
        Segment(
            "qkv",
            (
                _norm(model)[0],
                model.enter,
                _qkv(model).forward,
                _qk_norm(model)[0],
                _rope(model)[0],
            ),
        ),
        Segment("core", (model.gather_keys, *core)),
        Segment("out", (_out(model).forward, model.leave, residual_add(model.sizes))),
    ]


def attention_backward(model: Model) -> list[Segment]:
    """The same backwards; with sequence parallelism the input is gathered again for its weight's gradient."""
    core, core_backward = _core(model)
    again = core if model.shape.recompute is Recompute.SELECTIVE else ()
    out, qkv, enter = _out(model), _qkv(model), model.enter
    return [
        Segment("out", (enter, out.dgrad, ForWeight(out.wgrad))),
        Segment("core", (model.gather_keys, *again, *core_backward)),
        Segment("rope", (model.scatter_keys, _rope(model)[1], _qk_norm(model)[1])),
        Segment("qkv_dgrad", (ForWeight(enter) if enter else None, qkv.dgrad)),
        Segment(
            "qkv_wgrad",
            (model.leave, ForWeight(qkv.wgrad), _norm(model)[1], residual_add(model.sizes)),
        ),
    ]


def _core(model: Model) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    if model.shape.attention is AttentionKind.UNFUSED:
        return unfused_attention(model.sizes)
    forward, backward = fused_attention(model.sizes)
    return (forward,), (backward,)


def _norm(model: Model) -> tuple[Kernel, Kernel]:
    sizes = model.sizes
    return norms("norm", sizes, model.architecture.norm, rows=sizes.rows, width=sizes.hidden)


def _qkv(model: Model) -> Linear:
    return linear("qkv_proj", model.sizes, inputs=model.sizes.hidden, outputs=model.sizes.qkv_features)


def _out(model: Model) -> Linear:
    width = model.sizes.heads * model.sizes.head_dim
    return linear("out_proj", model.sizes, inputs=width, outputs=model.sizes.hidden)


def _qk_norm(model: Model) -> Pair:
    if not model.architecture.qk_norm:
        return None, None
    sizes = model.sizes
    rows = sizes.tokens * (sizes.heads + sizes.kv_heads)
    return norms("qk_norm", sizes, Norm.RMS, rows=rows, width=sizes.head_dim)


def _rope(model: Model) -> Pair:
    rotary = model.architecture.position is Position.ROTARY
    return rope(model.sizes) if rotary else (None, None)

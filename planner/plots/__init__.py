"""Pictures of a frontier and of its plans."""

__all__ = [
    "canvas",
    "comparison_plot",
    "frontier_plot",
    "labels",
    "power_plot",
    "sweep_plot",
    "timeline_plot",
]

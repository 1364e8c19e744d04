"""Pictures of a frontier and of its plans."""

__all__ = ["canvas", "comparison_plot", "frontier_plot", "labels", "timeline_plot"]

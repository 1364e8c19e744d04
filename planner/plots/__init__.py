"""Pictures of a frontier and of its plans."""

__all__ = ["canvas", "frontier_plot", "labels", "timeline_plot"]

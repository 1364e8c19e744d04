"""Plan files on their way into training. Loads with the standard library alone."""

__all__ = ["devices", "guard", "zeus"]

"""The blocks of a transformer, cut into partitions: embedding, attention, MLP and output head."""

__all__ = ["attention", "embedding", "head", "layer", "mlp", "model", "segments"]

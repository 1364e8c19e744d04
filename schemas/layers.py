"""How a model's layers are spread over the virtual stages of a pipeline."""


def even_split(layers: int, virtual_stages: int) -> tuple[int, ...]:
    """Layers of each virtual stage, in the model's order: as even as can be.

    Of a remainder, one layer each goes to the virtual stages after the first, in order; then to the first, which
    also has the embedding; the last, which has the output head, comes last.
    """
    base, remainder = divmod(layers, virtual_stages)
    preferred = [*range(1, virtual_stages - 1), 0, virtual_stages - 1]
    longer = set(preferred[:remainder])
    return tuple(base + (index in longer) for index in range(virtual_stages))

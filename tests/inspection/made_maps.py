"""Maps without a model: weights drawn at random, each row of which sums to 1."""

from collections.abc import Sequence

import torch
from torch import Tensor

from vaswani_transformer.inspection.maps import AttentionMaps

SOURCE = ["The", "small", "boy", "buys", "two", "cakes", ".", "</s>"]
TARGET = ["Der", "kleine", "Junge", "kauft", "zwei", "Kuchen", ".", "</s>"]


def made_maps(
    source: Sequence[str] = SOURCE,
    target: Sequence[str] = TARGET,
    layers: int = 2,
    heads: int = 4,
    seed: int = 0,
    score: float | None = None,
) -> AttentionMaps:
    """Sharp and blurred heads along the diagonal."""
    generator = torch.Generator().manual_seed(seed)

    def weights(queries: int, keys: int, causal: bool = False) -> Tensor:
        sharpness = 40 * torch.rand(layers, heads, 1, 1, generator=generator)
        distance = (torch.arange(queries)[:, None] * keys / queries - torch.arange(keys)).abs() / max(keys, 4)
        scores = torch.randn(layers, heads, queries, keys, generator=generator, dtype=torch.float64) - sharpness * distance
        if causal:
            scores = scores.masked_fill(torch.ones(queries, keys).triu(1).bool(), -torch.inf)
        return scores.softmax(-1)

    return AttentionMaps(
        source=tuple(source),
        target=tuple(target),
        read=("<s>", *target[:-1]),
        encoder=weights(len(source), len(source)),
        decoder=weights(len(target), len(target), causal=True),
        cross=weights(len(target), len(source)),
        log_probabilities=-torch.rand(len(target), generator=generator, dtype=torch.float64),
        source_text=" ".join(source[:-1]),
        target_text=" ".join(target[:-1]),
        score=score,
    )

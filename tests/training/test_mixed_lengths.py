"""Updates of mixed lengths in whole trainings; how batches are drawn: tests/data/test_batching.py."""

from collections.abc import Callable

import pytest

from vaswani_transformer.recipe import Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training.preparation import claim_run_folder, settle_micro_batches

MIXED = {"source_tokens": 128, "target_tokens": 128, "mixed_lengths": True}


def test_resuming_changes_no_bit(make_recipe: Callable[..., Recipe], assert_resuming_changes_no_bit: Callable[[Recipe], None]) -> None:
    assert_resuming_changes_no_bit(make_recipe(MIXED))


def test_one_micro_batch_is_refused_also_where_the_ranks_decide(make_recipe: Callable[..., Recipe], run: RunFolder) -> None:
    recipe = make_recipe({**MIXED, "micro_batches": None})
    assert settle_micro_batches(recipe, run, ranks=2).batching.micro_batches == 2
    with pytest.raises(ValueError, match=r"`mixed_lengths` gives an update .* and `micro_batches` is 1"):
        claim_run_folder(recipe, run, ranks=1)

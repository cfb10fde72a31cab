"""What eole is told, and what its training costs."""

from benchmarks.architectures.systems import Pieces, eole_flops, eole_search, eole_settings
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe

PIECES = Pieces(("a.source", "a.target"), ("v.source", "v.target"), "vocabulary.txt", 29_000, 9_997)


def test_eole_gets_our_batches_schedule_and_regularisation() -> None:
    recipe = load_recipe(find_recipe("multi30k_en_de"))
    settings = eole_settings("rnn", recipe, PIECES, 3, 2)
    training, model = settings["training"], settings["model"]
    assert training["batch_size"] * training["accum_count"][0] == recipe.batching.target_tokens
    assert (training["warmup_steps"], training["label_smoothing"], training["dropout"]) == (1000, 0.1, [0.3])
    assert training["bucket_size"] == PIECES.pairs  # an epoch, and no pair twice in it
    assert settings["seed"] == 3 and settings["src_vocab"] == settings["tgt_vocab"] == "vocabulary.txt"
    assert (model["encoder"]["encoder_type"], model["decoder"]["decoder_type"], model["encoder"]["layers"]) == ("brnn", "rnn", 2)
    assert model["share_embeddings"] and model["share_decoder_embeddings"]
    assert eole_settings("cnn", recipe, PIECES, 3, 4)["model"]["embeddings"] == {"position_encoding": True}
    search = eole_search(recipe)
    assert (search["beam_size"], search["length_penalty"], search["alpha"]) == (5, "wu", 1.4)
    assert (search["batch_type"], search["batch_size"]) == ("sents", 1)  # a translation must not depend on its neighbours


def test_flops_by_hand() -> None:
    counted = {"source_positions": 7, "target_positions": 5, "pairs": 35}
    result = {"matrices": {"encoder": 100, "decoder": 1000}, "vocabulary": 11, "width": 4, "counted": counted}
    products = 7 * 100 + 5 * 1000 + 5 * 11 * 4
    assert eole_flops("rnn", 2, result) == 6 * (products + 35 * 2 * 4)
    assert eole_flops("cnn", 3, result) == 6 * (products + 3 * 35 * 2 * 4)

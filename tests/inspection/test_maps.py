from transformers import MarianMTModel, PreTrainedTokenizerBase

from vaswani_transformer.inspection.maps import attention_maps


def test_shapes_and_sums(model: MarianMTModel, tokenizer: PreTrainedTokenizerBase) -> None:
    maps = attention_maps(model, tokenizer, "A man reads.")
    source, target = len(maps.source), len(maps.target)
    assert maps.encoder.shape == (1, 2, source, source)
    assert maps.decoder.shape == (1, 2, target, target)
    assert maps.cross.shape == (1, 2, target, source)
    for level in (maps, maps.words()):
        for weights in (level.encoder, level.decoder, level.cross):
            assert (weights.sum(-1) - 1).abs().max() < 1e-12
    assert model.config._attn_implementation == "sdpa"

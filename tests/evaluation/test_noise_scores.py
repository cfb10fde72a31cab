"""The scores of a pretrained model, and the texts that are shown beside them."""

from vaswani_transformer import add_mask_token, train_tokenizer
from vaswani_transformer.evaluation.noise_scores import text_with_masks


def test_a_text_is_shown_with_its_masks_and_no_control_token() -> None:
    tokenizer = add_mask_token(train_tokenizer(["a man reads"] * 2, 265))
    ids = [tokenizer.bos_token_id or 0, *tokenizer("a<mask> reads </s>").input_ids, tokenizer.pad_token_id]
    assert "</s>" in tokenizer.decode(ids[-2:])
    assert text_with_masks(ids, tokenizer) == "a<mask> reads </s>"  # these last characters were the user's own

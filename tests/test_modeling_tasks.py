"""The encoder for other tasks: loading, losses, padding and batches, implementations, pipelines, bad input."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Trainer,
    TrainingArguments,
    pipeline,
)
from transformers.utils import logging as transformers_logging

from vaswani_transformer import (
    VaswaniConfig,
    VaswaniEncoderModel,
    VaswaniForConditionalGeneration,
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
    VaswaniModel,
    add_mask_token,
    train_tokenizer,
)
from vaswani_transformer.task_inputs import pool

SIZES: dict[str, Any] = {
    "vocab_size": 40, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_labels": 3,
}  # fmt: skip
IDS = torch.tensor([[5, 9, 3, 17, 2], [8, 4, 2, 0, 0], [2, 0, 0, 0, 0]])
MASK = (IDS != 0).long()
HEADS: list[type[Any]] = [
    VaswaniForSequenceClassification, VaswaniForTokenClassification, VaswaniForQuestionAnswering, VaswaniForMaskedLM,
]  # fmt: skip
EVERY: list[type[Any]] = [VaswaniEncoderModel, *HEADS]
AUTO: dict[type[Any], Any] = {
    VaswaniForSequenceClassification: AutoModelForSequenceClassification,
    VaswaniForTokenClassification: AutoModelForTokenClassification,
    VaswaniForQuestionAnswering: AutoModelForQuestionAnswering,
    VaswaniForMaskedLM: AutoModelForMaskedLM,
}


def made(kind: type[Any], implementation: str = "sdpa", **settings: Any) -> Any:
    """The same every time, in evaluation mode; its weights are enlarged so that all of them matter."""
    torch.manual_seed(0)
    model = kind._from_config(VaswaniConfig(**{**SIZES, **settings}), attn_implementation=implementation).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def states(model: Any, **inputs: Any) -> torch.Tensor:
    """What a model says of each text: `[B, ...]`."""
    found = model(**inputs)
    if isinstance(model, VaswaniForQuestionAnswering):
        return torch.stack((found.start_logits, found.end_logits), -1)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What transformers and this package warn of."""
    caplog.set_level(logging.WARNING)
    transformers_logging.enable_propagation()
    return caplog


# Loading


@pytest.mark.parametrize("settings", [{}, {"target_vocab_size": 30}, {"tie_word_embeddings": False, "position_embedding_type": "learned"}])
def test_a_translators_encoder_loads_into_any_of_them(settings: dict[str, Any], tmp_path: Path, heard: pytest.LogCaptureFixture) -> None:
    translator = made(VaswaniForConditionalGeneration, **settings)
    translator.save_pretrained(tmp_path)
    expected = translator.model.encoder(input_ids=IDS, attention_mask=MASK).last_hidden_state
    for kind in EVERY:
        heard.clear()
        model, report = kind.from_pretrained(tmp_path, output_loading_info=True)
        found = getattr(model, "model", model)(input_ids=IDS, attention_mask=MASK).last_hidden_state
        assert torch.equal(found, expected)
        assert not model.config.is_encoder_decoder
        assert not report["unexpected_keys"]
        assert not [key for key in report["missing_keys"] if not key.startswith(("classifier", "qa_outputs", "mlm_head"))]
        assert heard.text.count(f"{kind.__name__} uses the encoder of this translator; the weights of the decoder are left out.") == 1
    assert translator.config.is_encoder_decoder


def test_the_map_of_the_other_classifier_is_told(tmp_path: Path, heard: pytest.LogCaptureFixture) -> None:
    kinds = VaswaniForSequenceClassification, VaswaniForTokenClassification
    for kind, other, meant in zip(kinds, kinds[::-1], ("whole texts", "tokens"), strict=True):
        made(kind).save_pretrained(tmp_path / kind.__name__)
        heard.clear()
        kind.from_pretrained(tmp_path / kind.__name__)
        VaswaniForMaskedLM.from_pretrained(tmp_path / kind.__name__)
        assert "takes the map to classes" not in heard.text
        other.from_pretrained(tmp_path / kind.__name__)
        assert f"{other.__name__} takes the map to classes of a {kind.__name__}, which was trained for {meant}; train it" in heard.text


@pytest.mark.parametrize("kind", HEADS)
def test_the_auto_classes_find_them(kind: type[Any], tmp_path: Path) -> None:
    model = made(kind)
    model.save_pretrained(tmp_path)
    loaded = AUTO[kind].from_pretrained(tmp_path)
    assert type(loaded) is kind
    assert torch.equal(states(loaded, input_ids=IDS, attention_mask=MASK), states(model, input_ids=IDS, attention_mask=MASK))
    assert type(AutoModel.from_pretrained(tmp_path)) is VaswaniEncoderModel
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".py", ".safetensors"}


def test_the_auto_class_of_a_translator_is_what_it_was(tmp_path: Path) -> None:
    config = VaswaniConfig(**SIZES)
    VaswaniForConditionalGeneration(config).save_pretrained(tmp_path)
    assert type(AutoModel.from_pretrained(tmp_path)) is VaswaniModel
    assert type(AutoModel.from_config(config)) is VaswaniModel
    assert type(AutoModel.from_config(config.for_encoder())) is VaswaniEncoderModel


def test_a_masked_language_model_becomes_a_translator(tmp_path: Path, heard: pytest.LogCaptureFixture) -> None:
    pretrained = made(VaswaniForMaskedLM)
    pretrained.save_pretrained(tmp_path)
    translator = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(translator) is VaswaniForConditionalGeneration
    assert translator.config.is_encoder_decoder
    assert "all weights of the decoder of this VaswaniForConditionalGeneration are new; train it before it translates." in heard.text
    assert torch.equal(translator.lm_head.weight, pretrained.mlm_head.weight)
    found = translator.model.encoder(input_ids=IDS, attention_mask=MASK).last_hidden_state
    assert torch.equal(found, pretrained.model(input_ids=IDS, attention_mask=MASK).last_hidden_state)
    assert translator.generate(IDS, attention_mask=MASK, max_new_tokens=2).shape[0] == 3


# Padding, batches, implementations


@pytest.mark.parametrize("pooling", ["mean", "last"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_neither_padding_nor_the_batch_changes_a_text(side: str, pooling: str) -> None:
    """In float64, where the order of sums moves the last digits only."""
    padding = torch.full((3, 2), 39)
    parts = [(padding, IDS), (torch.zeros_like(padding), MASK)]
    ids, mask = (torch.cat(part if side == "left" else part[::-1], 1) for part in parts)
    for kind in EVERY:
        model = made(kind, classifier_pooling=pooling).double()
        together = states(model, input_ids=ids, attention_mask=mask)
        for i, length in enumerate(MASK.sum(1).tolist()):
            alone = states(model, input_ids=IDS[i : i + 1, :length])[0]
            here = together[i] if kind is VaswaniForSequenceClassification else together[i][mask[i] == 1]
            torch.testing.assert_close(here, alone, rtol=1e-12, atol=1e-12)


def test_texts_of_one_length_have_the_same_classes_alone_and_together() -> None:
    model = made(VaswaniForSequenceClassification)
    texts = torch.randint(3, 40, (8, 6))
    together = states(model, input_ids=texts)
    alone = torch.cat([states(model, input_ids=text[None]) for text in texts])
    assert torch.equal(together.argmax(1), alone.argmax(1))
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_the_two_ways_to_stand_for_a_text() -> None:
    model = made(VaswaniForSequenceClassification)
    encoded = model.model(IDS, MASK).last_hidden_state
    mean = torch.stack([encoded[0].mean(0), encoded[1, :3].mean(0), encoded[2, 0]])
    torch.testing.assert_close(model(IDS, MASK).logits, model.classifier(mean))
    model.config.classifier_pooling = "last"
    last = torch.stack([encoded[0, 4], encoded[1, 2], encoded[2, 0]])
    torch.testing.assert_close(model(IDS, MASK).logits, model.classifier(last))


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        (VaswaniForSequenceClassification, {"labels": torch.tensor([2, 0, 1])}),
        (VaswaniForTokenClassification, {"labels": torch.full((3, 5), 1)}),
        (VaswaniForQuestionAnswering, {"start_positions": torch.tensor([1, 0, 0]), "end_positions": torch.tensor([3, 2, 0])}),
    ],
)
def test_labels_may_be_whole_numbers_of_any_type(kind: type[Any], labels: dict[str, torch.Tensor]) -> None:
    model = made(kind)
    small = {name: value.to(torch.int16) for name, value in labels.items()}
    assert torch.equal(model(IDS, MASK, **small).loss, model(IDS, MASK, **labels).loss)


def test_the_mean_of_a_long_text_fits_into_half_precision() -> None:
    states = torch.full((1, 20_000, 2), 4.0, dtype=torch.float16)
    assert torch.equal(pool(states, torch.ones(1, 20_000), "mean"), torch.full((1, 2), 4.0, dtype=torch.float16))


def test_padding_is_never_an_answer() -> None:
    model = made(VaswaniForQuestionAnswering)
    scores = states(model, input_ids=IDS, attention_mask=MASK).softmax(1)
    assert (scores[MASK == 0] == 0).all()
    torch.testing.assert_close(scores[2, 0], torch.ones(2))


@pytest.mark.parametrize("kind", HEADS[:2])
def test_every_implementation_computes_the_same(kind: type[Any]) -> None:
    def found(implementation: str) -> torch.Tensor:
        with torch.compiler.set_stance("force_eager"):  # compiling it takes a minute on a CPU
            scores = states(made(kind, implementation), input_ids=IDS, attention_mask=MASK)
        return scores if scores.ndim == 2 else scores[MASK == 1]

    for implementation in ("sdpa", "flex_attention"):
        torch.testing.assert_close(found(implementation), found("eager"), rtol=1e-5, atol=1e-5)


# Losses


def test_one_class_a_text() -> None:
    model = made(VaswaniForSequenceClassification)
    found = model(IDS, MASK, labels=torch.tensor([2, 0, 1]))
    by_hand = -found.logits.log_softmax(1)[torch.arange(3), torch.tensor([2, 0, 1])].mean()
    torch.testing.assert_close(found.loss, by_hand)
    assert model.config.problem_type == "single_label_classification"


def test_several_classes_a_text() -> None:
    model = made(VaswaniForSequenceClassification)
    labels = torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 0]])
    found = model(IDS, MASK, labels=labels)
    chances = found.logits.sigmoid()
    torch.testing.assert_close(found.loss, -(labels * chances.log() + (1 - labels) * (1 - chances).log()).mean())
    declared = made(VaswaniForSequenceClassification, problem_type="multi_label_classification")
    torch.testing.assert_close(declared(IDS, MASK, labels=labels.long()).loss, found.loss)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_a_number_for_a_text(shape: tuple[int, ...]) -> None:
    model = made(VaswaniForSequenceClassification, num_labels=1)
    labels = torch.tensor([1, 0, 4])
    found = model(IDS, MASK, labels=labels.view(shape))
    torch.testing.assert_close(found.loss, (found.logits[:, 0] - labels).square().mean())


@pytest.mark.parametrize("kind", [VaswaniForTokenClassification, VaswaniForMaskedLM])
def test_a_class_for_a_token(kind: type[Any]) -> None:
    model = made(kind)
    labels = torch.tensor([[0, -100, 2, 1, -100], [1, -100, -100, -100, -100], [-100] * 5])
    found = model(IDS, MASK, labels=labels)
    chances = found.logits.log_softmax(-1)
    by_hand = -(chances[0, 0, 0] + chances[0, 2, 2] + chances[0, 3, 1] + chances[1, 0, 1])
    torch.testing.assert_close(found.loss, by_hand / 4)
    torch.testing.assert_close(model(IDS, MASK, labels=labels, num_items_in_batch=8).loss, by_hand / 8)


def test_where_an_answer_is() -> None:
    model = made(VaswaniForQuestionAnswering)
    found = model(IDS, MASK, start_positions=torch.tensor([1, 0, 9]), end_positions=torch.tensor([[3], [2], [9]]))
    starts, ends = found.start_logits.log_softmax(1), found.end_logits.log_softmax(1)
    torch.testing.assert_close(found.loss, -(starts[0, 1] + starts[1, 0] + ends[0, 3] + ends[1, 2]) / 4)


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_answer_outside_of_its_text_counts_for_nothing_beside_a_longer_text(side: str) -> None:
    model = made(VaswaniForQuestionAnswering)
    ids, mask, start, other = (IDS, MASK, 1, 4) if side == "right" else (IDS.flip(1), MASK.flip(1), 3, 0)
    outside = torch.tensor([start, other, other])  # the second and the third text are shorter
    found = model(ids, mask, start_positions=outside, end_positions=outside)
    alone = model(ids[:1], mask[:1], start_positions=outside[:1], end_positions=outside[:1])
    torch.testing.assert_close(found.loss, alone.loss)


def test_several_labels_of_which_there_is_one() -> None:
    model = made(VaswaniForSequenceClassification, num_labels=1, problem_type="multi_label_classification")
    labels = torch.tensor([[1.0], [0.0], [1.0]])
    found = model(IDS, MASK, labels=labels)
    by_hand = torch.nn.functional.binary_cross_entropy(found.logits.sigmoid(), labels)
    torch.testing.assert_close(found.loss, by_hand)


# Training


def test_the_classifiers_dropout_has_a_rate_of_its_own() -> None:
    for rate, expected in ((None, 0.25), (0.5, 0.5), (0.0, 0.0)):
        assert made(VaswaniForSequenceClassification, dropout=0.25, classifier_dropout=rate).dropout.p == expected
    with pytest.raises(ValueError, match="`classifier_dropout` is a probability below 1"):
        VaswaniConfig(**SIZES, classifier_dropout=1.0)


def test_the_mask_shares_the_embeddings_and_grows_with_them(tmp_path: Path) -> None:
    model = made(VaswaniForMaskedLM)
    before = model.model.shared.weight.detach().clone()
    model.resize_token_embeddings(45)
    assert model.mlm_head.weight is model.model.shared.weight is model.model.encoder.embed_tokens.weight
    assert torch.equal(model.mlm_head.weight[:40], before)
    assert states(model, input_ids=torch.full_like(IDS, 44), attention_mask=MASK).shape == (3, 5, 45)
    model.save_pretrained(tmp_path)
    assert VaswaniForMaskedLM.from_pretrained(tmp_path).config.vocab_size == 45


def test_lora_trains_and_merges() -> None:
    model = get_peft_model(made(VaswaniForSequenceClassification), LoraConfig(TaskType.SEQ_CLS, target_modules=["q_proj", "v_proj"], r=2))
    model(input_ids=IDS, attention_mask=MASK, labels=torch.tensor([2, 0, 1])).loss.backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained
    assert all("lora_" in name or "classifier" in name for name in trained)
    assert type(model.merge_and_unload()) is VaswaniForSequenceClassification


def test_the_trainer_learns_classes(tmp_path: Path) -> None:
    rows = [{"input_ids": [5 + i % 2, 9, 2], "attention_mask": [1, 1, 1], "labels": i % 2} for i in range(16)]
    model = VaswaniForSequenceClassification(VaswaniConfig(**{**SIZES, "num_labels": 2, "dropout": 0.0}))
    arguments = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=40, learning_rate=1e-2, report_to=[],
        use_cpu=True, save_strategy="no", logging_strategy="no", disable_tqdm=True, gradient_checkpointing=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows)
    trainer.train()
    assert trainer.predict(rows).predictions.argmax(1).tolist() == [0, 1] * 8


# Pipelines, with the tokenizer of this package

TEXTS = ["naïve café in Zürich", "ﬁne oﬃce 😀 👨‍👩‍👧 ok", "e\u0301te\u0301 a dog"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer([*TEXTS, "Where is the dog ? In Zürich ."] * 8, 420)


def settings_of(tokenizer: Any) -> dict[str, Any]:
    return {"vocab_size": len(tokenizer), "id2label": {0: "O", 1: "B", 2: "I"}}


def test_texts_are_classified(tokenizer: Any) -> None:
    classify = pipeline("text-classification", made(VaswaniForSequenceClassification, **settings_of(tokenizer)), tokenizer=tokenizer)
    alone = [classify(text)[0] for text in [*TEXTS, ""]]
    together = classify([*TEXTS, ""], batch_size=4)
    assert [found["label"] for found in together] == [found["label"] for found in alone]
    assert [found["score"] for found in together] == pytest.approx([found["score"] for found in alone], abs=1e-5)
    assert classify({"text": "a dog", "text_pair": "in Zürich"})["label"] in {"O", "B", "I"}


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_words_are_tagged_where_they_stand(strategy: str, tokenizer: Any) -> None:
    """Every piece of a word lies inside it, whatever its bytes, so that words come out whole."""
    tag = pipeline(
        "token-classification", made(VaswaniForTokenClassification, **settings_of(tokenizer)), tokenizer=tokenizer,
        aggregation_strategy=strategy, ignore_labels=[],
    )  # fmt: skip
    for text in TEXTS:
        with pytest.warns(UserWarning, match="fallback heuristic") if strategy != "simple" else pytest.MonkeyPatch.context():
            found = tag(text)
        assert "".join(text[entity["start"] : entity["end"]] for entity in found) == text
        if strategy != "simple":
            words = [word for entity in found for word in text[entity["start"] : entity["end"]].split()]
            assert words == text.split()
    assert tag("") == []


class OneWord(torch.nn.Module):
    """In place of a map to classes: "B" for the first token of one word, and "O" for all others."""

    def __init__(self, first_token: int) -> None:
        super().__init__()
        self.first_token = first_token

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """`[1, S, D]` to `[1, S, 3]`."""
        return torch.nn.functional.one_hot((torch.arange(states.shape[1]) == self.first_token).long(), 3)[None].float()


@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
@pytest.mark.parametrize("text", [*TEXTS, ["a", "dog", ".", "In", "Zürich", "."]])
def test_the_first_token_of_a_word_tags_the_word_and_nothing_else(text: str | list[str], tokenizer: Any) -> None:
    model = made(VaswaniForTokenClassification, **settings_of(tokenizer))
    apart = not isinstance(text, str)
    whole, words = (" ".join(text), text) if isinstance(text, list) else (text, text.split())
    pieces = [len(tokenizer(word)["input_ids"]) - 1 for word in words]
    for number, word in enumerate(words):
        model.classifier = OneWord(sum(pieces[:number]))
        tag = pipeline("token-classification", model, tokenizer=tokenizer, aggregation_strategy="first")
        found = tag(text, is_split_into_words=True)[0] if apart else tag(text)
        assert [whole[entity["start"] : entity["end"]].strip() for entity in found if entity["entity_group"] == "B"] == [word]


def test_offsets_are_exact_to_the_character(tokenizer: Any) -> None:
    for text in TEXTS:
        encoding = tokenizer(text, return_offsets_mapping=True)
        for piece, (start, end) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
            written = tokenizer.backend_tokenizer.id_to_token(piece)
            if piece != tokenizer.eos_token_id and "\ufffd" not in (decoded := tokenizer.backend_tokenizer.decoder.decode(["Ġ", written])):
                assert text[start:end].lstrip() == decoded.lstrip()
        assert {i for start, end in encoding["offset_mapping"] for i in range(start, end)} == set(range(len(text)))


def test_a_pair_is_one_text_with_an_end_after_each(tokenizer: Any) -> None:
    pair = tokenizer("Where is the dog ?", "In Zürich .")
    assert pair["input_ids"] == tokenizer("Where is the dog ?")["input_ids"] + tokenizer("In Zürich .")["input_ids"]
    assert set(pair) == {"input_ids", "attention_mask"}
    sequences = pair.sequence_ids()
    assert [i for i, sequence in enumerate(sequences) if sequence is None] == [i for i, x in enumerate(pair["input_ids"]) if x == 2]
    assert sorted({s for s in sequences if s is not None}) == [0, 1]


def test_masks_are_filled(tokenizer: Any) -> None:
    masked = add_mask_token(tokenizer)
    fill = pipeline("fill-mask", made(VaswaniForMaskedLM, vocab_size=len(masked)), tokenizer=masked, top_k=3)
    decode = masked.backend_tokenizer.decoder.decode
    for found in fill("a <mask> in Zürich"):
        special = found["token"] in masked.all_special_ids
        assert found["sequence"] == "a" + ("" if special else decode(["Ġ", masked.convert_ids_to_tokens(found["token"])])) + " in Zürich"


def test_a_target_that_is_a_word_begins_with_the_mark_of_its_space() -> None:
    masked = add_mask_token(train_tokenizer(["a cat sees a bobcat, a tomcat, a wildcat"] * 5, 280))
    assert {"cat", "Ġcat"} <= masked.get_vocab().keys()
    fill = pipeline("fill-mask", made(VaswaniForMaskedLM, vocab_size=len(masked)), tokenizer=masked)
    filled = {target: fill("a <mask> sees", targets=[target])[0]["sequence"] for target in ("Ġcat", "cat", " cat")}
    assert filled == {"Ġcat": "a cat sees", "cat": "acat sees", " cat": "a  sees"}


def test_features_are_the_encoders_states(tokenizer: Any) -> None:
    model = made(VaswaniEncoderModel, vocab_size=len(tokenizer))
    found = pipeline("feature-extraction", model, tokenizer=tokenizer)("a dog")
    torch.testing.assert_close(torch.tensor(found), states(model, **tokenizer("a dog", return_tensors="pt")))


# Bad input

LABELS = torch.tensor([2, 0, 1])


@pytest.mark.parametrize(
    ("kind", "inputs", "sentence"),
    [
        (0, {"labels": torch.tensor([2, 0, 3])}, "`labels` has 3, which is outside of 0 to 2; labels are numbered from 0"),
        (0, {"labels": torch.tensor([2, 0])}, r"shape \(2,\), and single_label_classification with 3 texts .* needs \(3,\)"),
        (0, {"labels": torch.tensor([[1, 0, 0]] * 3)}, r"shape \(3, 3\), and single_label_classification"),
        (0, {"labels": torch.tensor([[1.0, 0, -100]] * 3)}, "`labels` has -100.0, and each class of a text has a label between 0"),
        (0, {"labels": torch.tensor([[1.0, 0, float("nan")]] * 3)}, "`labels` has nan"),
        (0, {"input_ids": IDS[0], "attention_mask": None}, r"texts have the shape \(5,\), and a batch has two dimensions"),
        (0, {"labels": torch.tensor([0.0, 1.0, 0.0])}, r"shape \(3,\), and multi_label_classification .* needs \(3, 3\)"),
        (1, {"labels": LABELS}, r"shape \(3,\) and the tokens \(3, 5\); each token needs a label"),
        (1, {"labels": torch.full((3, 5), 7)}, "`labels` has 7, which is outside of 0 to 2"),
        (1, {"labels": torch.full((3, 5), -1)}, "`labels` has -1, which is outside"),
        (1, {"labels": torch.full((3, 5), 1.0)}, "`labels` are torch.float32, and classes are whole numbers"),
        (2, {"start_positions": LABELS.float(), "end_positions": LABELS}, "`start_positions` are torch.float32, and positions are whole"),
        (2, {"start_positions": LABELS}, "`end_positions` is missing; pass both, or neither"),
        (2, {"start_positions": LABELS, "end_positions": LABELS[:2]}, r"`end_positions` has the shape \(2,\), and 3 texts need \(3,\)"),
        (2, {"start_positions": -LABELS, "end_positions": LABELS}, "`start_positions` has -2, which is outside"),
        (3, {"labels": torch.full((3, 5), 40)}, "`labels` has 40, which is outside of 0 to 39"),
        (0, {"attention_mask": MASK[:, :3]}, r"`attention_mask` has the shape \(3, 3\) and the texts \(3, 5\)"),
        (
            0,
            {"attention_mask": MASK * torch.tensor([[1], [0], [1]])},
            "Text 1 of the batch has no token; .* `add_special_tokens=True`",
        ),
        (0, {"input_ids": IDS[:, :0], "attention_mask": None}, "Text 0 of the batch has no token"),
        (1, {"input_ids": None}, "takes either `input_ids` or `inputs_embeds`"),
    ],
)
def test_wrong_input_gives_one_sentence(kind: int, inputs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        made(HEADS[kind])(**{"input_ids": IDS, "attention_mask": MASK, **inputs})
    assert "\n" not in str(raised.value)


def test_a_translator_has_no_classes() -> None:
    with pytest.raises(ValueError, match="load this folder as VaswaniForSequenceClassification"):
        made(VaswaniForConditionalGeneration)(IDS, MASK, labels=LABELS)

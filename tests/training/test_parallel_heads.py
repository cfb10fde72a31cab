"""Training of the heads of blockwise parallel decoding: the loss from its definition, and whole trainings, a second each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.batching import IGNORED_LABEL, collate
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.parallel_heads import ParallelHeads
from vaswani_transformer.recipe import FineTuningSettings, Recipe
from vaswani_transformer.run_folder import RunFolder
from vaswani_transformer.training import loss as loss_module
from vaswani_transformer.training.building import adapt, build_model
from vaswani_transformer.training.cost import training_flops
from vaswani_transformer.training.engine import train
from vaswani_transformer.training.initialisation import set_heads
from vaswani_transformer.training.loss import TranslationLoss, target_positions
from vaswani_transformer.training.preparation import prepare_data
from vaswani_transformer.training.update import load_batch
from vaswani_transformer.training.validation import Validator

MakeRecipe = Callable[..., Recipe]

SOURCE = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
LABELS = torch.tensor([[4, 3, 5, 2], [6, 2, IGNORED_LABEL, IGNORED_LABEL]])
BATCH = {"input_ids": SOURCE, "attention_mask": (SOURCE != 0).long(), "labels": LABELS, "target_positions": target_positions(LABELS)}


def tiny_model(parallel_heads: int = 3, **settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "d_model": 16}
    config = VaswaniConfig.from_preset("tiny", vocab_size=29, parallel_heads=parallel_heads, **sizes, **settings)
    return VaswaniForConditionalGeneration(config).double()


def heads_of(model: VaswaniForConditionalGeneration) -> ParallelHeads:
    assert isinstance(model.parallel_heads, ParallelHeads)
    return model.parallel_heads


def by_definition(model: VaswaniForConditionalGeneration, ahead: int) -> torch.Tensor:
    """The summed loss of the tokens `ahead` of their states (1 is the next one), sentence by sentence, state by state."""
    output = model.model(BATCH["input_ids"], BATCH["attention_mask"], model.prepare_decoder_input_ids_from_labels(LABELS))
    total = torch.zeros((), dtype=torch.float64)
    sources = zip(output.encoder_last_hidden_state, BATCH["attention_mask"], strict=True)
    for states, labels, (source, mask) in zip(output.last_hidden_state, ([4, 3, 5, 2], [6, 2]), sources, strict=True):
        for place, label in enumerate(labels[ahead - 1 :]):
            own = states[place]
            if ahead > 1 and model.config.chained_heads:
                between = model.model.decoder.embed(torch.tensor([labels[place : place + ahead]]), None)
                expanded = own.expand(1, ahead, -1)
                own = model.parallel_heads(expanded, between, source[None], mask[None])[ahead - 2][0, 0]
            elif ahead > 1:
                own = heads_of(model)(own)[ahead - 2]
            total = total + functional.cross_entropy(model.lm_head(own), torch.tensor(label), label_smoothing=0.1)
    return total


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("heads_only", [False, True])
@pytest.mark.parametrize("chained", [False, True])
def test_the_loss_is_the_mean_over_the_tokens_ahead(chained: bool, heads_only: bool, bias: bool) -> None:
    model = tiny_model(lm_head_bias=bias, chained_heads=chained).eval()
    for part in (model.model, model.lm_head):
        part.requires_grad_(not heads_only)
    found = TranslationLoss(model, smoothing=0.1)(**BATCH).smoothed
    steps = [2, 3] if heads_only else [1, 2, 3]
    expected = torch.stack([by_definition(model, ahead) for ahead in steps]).mean()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for ours, theirs in zip(torch.autograd.grad(found, trained), torch.autograd.grad(expected, trained), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_a_head_that_no_target_reaches_learns_nothing() -> None:
    """In a batch of short targets; a training has longer ones."""
    model = tiny_model(6).eval()
    TranslationLoss(model, smoothing=0.1)(**BATCH).smoothed.backward()
    gradient = heads_of(model).fc2.weight.grad
    assert gradient is not None and gradient.isfinite().all()
    of_heads = gradient.unflatten(0, (5, -1)).abs().sum((1, 2))
    assert (of_heads > 0).tolist() == [True, True, True, False, False]


def test_no_dropout_reaches_a_frozen_backbone() -> None:
    model = tiny_model(dropout=0.5).train()
    adapt(model, FineTuningSettings(freeze=("backbone",)))
    loss = TranslationLoss(model, smoothing=0.1)
    assert {name for name, part in model.named_parameters() if part.requires_grad} == {
        f"parallel_heads.{layer}.{kind}" for layer in ("fc1", "fc2") for kind in ("weight", "bias")
    }
    for _ in range(2):
        assert loss(**BATCH).smoothed == loss(**BATCH).smoothed
        assert heads_of(model).training and not model.model.training
        loss.eval()
        loss.train()


@pytest.mark.parametrize("heads_only", [False, True])
@pytest.mark.parametrize("chained", [False, True])
def test_flops_follow_torchs_own_counter(chained: bool, heads_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_MULTIPLES", {})  # torch would count the rows that fill a chunk
    model = tiny_model(4, chained_heads=chained).float().train()
    model.set_attn_implementation("eager")
    if heads_only:
        model.model.requires_grad_(False)
        model.lm_head.requires_grad_(False)
    source, labels = torch.full((2, 7), 5), torch.full((2, 5), 6)
    loss = TranslationLoss(model, smoothing=0.1)
    with FlopCounterMode(display=False) as counter:
        loss(source, torch.ones_like(source), labels, target_positions(labels)).smoothed.backward()
    found = training_flops(model.config, 2, 7, 5, 10, heads_only)
    # Torch does not count the gradient of the projection, which is a sum in place: 10 + 8 + 6 + 4 tokens, 29 entries of 16
    uncounted = 0 if heads_only else 2 * 29 * 16 * (10 + 8 + 6 + 4)
    assert found == pytest.approx(counter.get_total_flops() + uncounted, rel=0.01)


@pytest.fixture
def origin(make_recipe: MakeRecipe, tmp_path: Path) -> Path:
    run = RunFolder(tmp_path / "origin")
    assert train(make_recipe(updates=2, validate_every=2, checkpoint_every=2, average_checkpoints=1), run)
    return run.averaged


def _recipe(make_recipe: MakeRecipe, origin: Path, freeze: bool = True, heads: int = 3, **training: Any) -> Recipe:
    fine = {"init_from": str(origin), "model": {}, "tokenizer": {"method": "keep"}, "search": {"num_beams": 1, "length_penalty": 1.0}}
    tuning = {"fine_tuning": {"freeze": ["backbone"]}} if freeze else {}
    return make_recipe(fine={**fine, **tuning}, parallel_heads=heads, best_checkpoint_metric="loss", **training)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("settings", [{}, {"chained_heads": True}, {"chained_heads": True, "optimizer": "muon"}])
def test_a_frozen_backbone_stays_bit_for_bit(settings: dict[str, Any], make_recipe: MakeRecipe, run: RunFolder, origin: Path) -> None:
    assert train(_recipe(make_recipe, origin, **settings), run)
    before, initial, after = _weights(origin), _weights(run.initial), _weights(run.averaged)
    heads = [name for name in after if name.startswith("parallel_heads.")]
    assert {*after} == {*before, *heads} and len(heads) == (16 if settings else 4)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(torch.equal(initial[name], after[name]) for name in heads)
    assert read_json(run.averaged / "config.json")["parallel_heads"] == 3


def test_a_backbone_that_is_trained_along_changes(make_recipe: MakeRecipe, run: RunFolder, origin: Path) -> None:
    assert train(_recipe(make_recipe, origin, freeze=False), run)
    before, after = _weights(origin), _weights(run.averaged)
    assert not any(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(("freeze", "chained"), [(True, False), (False, False), (True, True)])
def test_resuming_changes_no_bit(
    make_recipe: MakeRecipe, origin: Path, freeze: bool, chained: bool, assert_resuming_changes_no_bit: Callable[[Recipe], None]
) -> None:
    assert_resuming_changes_no_bit(_recipe(make_recipe, origin, freeze, chained_heads=chained))


def test_heads_of_the_origin_are_trained_on_or_left_out(make_recipe: MakeRecipe, origin: Path, tmp_path: Path) -> None:
    first, on, without = (RunFolder(tmp_path / name) for name in ("first", "on", "without"))
    assert train(_recipe(make_recipe, origin), first)
    prepare_data(_recipe(make_recipe, first.averaged), on)
    assert all(torch.equal(tensor, _weights(on.initial)[name]) for name, tensor in _weights(first.averaged).items())
    prepare_data(_recipe(make_recipe, first.averaged, freeze=False, heads=1), without)
    assert _weights(without.initial).keys() == _weights(origin).keys()
    assert read_json(without.initial / "transfer.json")["heads_left_out"] == 3
    with pytest.raises(ValueError, match=r"propose 3 tokens a step, and `training\.parallel_heads` is 2; set it to 3"):
        prepare_data(_recipe(make_recipe, first.averaged, heads=2), RunFolder(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"has heads with `chained_heads: false`; set `training\.chained_heads` to that"):
        prepare_data(_recipe(make_recipe, first.averaged, chained_heads=True), RunFolder(tmp_path / "chained"))


def test_new_heads_are_drawn_with_the_seed() -> None:
    first, same, other = (tiny_model(1) for _ in range(3))
    for model, seed in ((first, 1), (same, 1), (other, 2)):
        set_heads(model, 4, seed)
        assert model.config.parallel_heads == 4
    assert torch.equal(heads_of(first).fc1.weight, heads_of(same).fc1.weight)
    assert not torch.equal(heads_of(first).fc1.weight, heads_of(other).fc1.weight)
    assert heads_of(first).fc1.weight.dtype == torch.float64 and not heads_of(first).fc2.bias.any()


def test_validation_counts_right_proposals(make_recipe: MakeRecipe, run: RunFolder, origin: Path) -> None:
    recipe = _recipe(make_recipe, origin)
    data = prepare_data(recipe, run)
    loss = TranslationLoss(build_model(recipe, len(data.tokenizer), torch.device("cpu"), run.initial), 0.1)
    record = Validator(recipe, data.tokenizer, data.validation).run(loss)
    model, rights, counts = loss.model.eval(), [0, 0, 0], [0, 0, 0]
    for pair in range(len(data.validation)):
        labels = collate(data.validation, [pair], 0)["labels"]
        batch = load_batch(data.validation, torch.tensor([pair]).numpy(), 0, torch.device("cpu"))
        decoder_input = model.prepare_decoder_input_ids_from_labels(labels)
        states = model.model(batch["input_ids"], batch["attention_mask"], decoder_input).last_hidden_state[0]
        for place, state in enumerate(states):
            proposed = model.lm_head(torch.cat((state[None], heads_of(model)(state)))).argmax(-1)
            for ahead, label in enumerate(labels[0, place : place + 3]):
                rights[ahead] += int(proposed[ahead] == label)
                counts[ahead] += 1
    assert record["right_ahead"] == [right / count for right, count in zip(rights, counts, strict=True)]


def test_more_heads_than_target_tokens_are_refused(make_recipe: MakeRecipe, run: RunFolder, origin: Path) -> None:
    with pytest.raises(ValueError, match=r"`training\.parallel_heads: 99` is more heads than the longest target has tokens \(\d+,"):
        train(_recipe(make_recipe, origin, heads=99), run)


FROZEN = {"fine_tuning": {"freeze": ["backbone"]}}
FROM_ANOTHER = {"init_from": "x", "model": {}, "tokenizer": {"method": "keep"}}


@pytest.mark.parametrize(
    ("fine", "training", "sentence"),
    [
        ({}, {"parallel_heads": 4}, r"`training\.parallel_heads` are for a model that translates already; name it in `init_from`"),
        (FROM_ANOTHER, {"parallel_heads": 0}, r"`parallel_heads` must be at least 1, not 0"),
        ({"search": {"num_beams": 1}}, {}, r"with `num_beams: 1` there is only one; set it to 1\.0"),
        ({"model": {"parallel_heads": 4}}, {}, r"set `training\.parallel_heads`"),
        ({"model": {"chained_heads": True}}, {}, r"`training\.chained_heads` says of which kind"),
        (FROM_ANOTHER, {"chained_heads": True}, r"`training\.parallel_heads` are; set both there"),
        ({"search": {"num_beams": 1, "length_penalty": 1.0, "draft": "heads"}}, {}, r"`search\.draft: heads` needs heads; set"),
        ({"search": {"draft": "source", "draft_tokens": 2}}, {}, r"`search\.draft_tokens` is for what heads propose; set"),
        (
            {**FROM_ANOTHER, "search": {"draft": "heads", "draft_tokens": 4}},
            {"parallel_heads": 4},
            r"`search\.draft_tokens` is 4, and heads for `training\.parallel_heads: 4` propose one less; set it lower",
        ),
        ({**FROM_ANOTHER, **FROZEN}, {}, r"leaves nothing to train without heads"),
        (
            {**FROM_ANOTHER, **FROZEN},
            {"parallel_heads": 4},
            r"BLEU cannot tell which checkpoint is best; set .*best_checkpoint_metric: loss",
        ),
        ({**FROM_ANOTHER, "fine_tuning": {"lora": {}}}, {"parallel_heads": 4}, r"would stay untrained; leave one out"),
    ],
)
def test_recipes_that_cannot_be_meant(make_recipe: MakeRecipe, fine: dict[str, Any], training: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_recipe(fine=fine, **training)

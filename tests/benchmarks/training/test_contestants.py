from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from torch.nn.functional import log_softmax

from benchmarks.training.contestants import KINDS, ON_CPU, ON_GPU, HuggingFaceTrainer, Ours, PlainLoop, marian
from benchmarks.training.work import Work
from vaswani_transformer.training.update import load_batch

WorkMaker = Callable[..., Work]


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """Accelerate remembers precision and devices for the whole process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def parameters(contestant: Any) -> list[torch.Tensor]:
    model = contestant._updater.module if isinstance(contestant, Ours) else contestant._model
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("name", ["marian", "marian-eager-bf16", "ours", "ours-bf16"])
def test_a_round_trains(name: str, make_work: WorkMaker) -> None:
    contestant = KINDS[name](make_work("budget", 2))
    before = parameters(contestant)
    timed = contestant.round()
    assert timed.seconds > 0 and timed.cpu_seconds > 0
    assert all(torch.isfinite(now).all() for now in parameters(contestant))
    changed = [not torch.equal(a, b) for a, b in zip(before, parameters(contestant), strict=True)]
    assert sum(changed) > 0.9 * len(changed)  # keys' biases have no gradient


def test_the_loop_minimises_the_smoothed_cross_entropy(make_work: WorkMaker) -> None:
    """Against the formula, written out: 1 - e on the target and e / V on every entry, over the real tokens."""
    work: Work = make_work("budget", 1, dropout=0.0)
    loop = PlainLoop(work, attention="eager", precision="float32", fused=True)
    seen: list[torch.Tensor] = []
    loop._adam.step = lambda: seen.append(loop._model.lm_head.weight.grad.clone())  # type: ignore[assignment]
    loop.round()
    model = marian(work, "sdpa")
    batch = load_batch(work.corpus(), torch.tensor(work.batches[0]).numpy(), 0, torch.device("cpu"))
    labels, positions = batch["labels"], batch["target_positions"]
    decoder_input_ids = model.prepare_decoder_input_ids_from_labels(labels)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    logits = model(**inputs, decoder_input_ids=decoder_input_ids).logits
    log_probabilities = log_softmax(logits, -1).flatten(0, 1)[positions]
    of_targets = log_probabilities.gather(1, labels.flatten()[positions].unsqueeze(1))
    loss = -(0.9 * of_targets.mean() + 0.1 * log_probabilities.mean())
    loss.backward()
    torch.testing.assert_close(seen[0], model.lm_head.weight.grad, rtol=1e-4, atol=1e-6)


def test_the_trainer_trains_on_the_batches_it_is_given(make_work: WorkMaker) -> None:
    work: Work = make_work("grouped", 2)
    contestant = HuggingFaceTrainer(work, precision="float32")
    batches = list(contestant._trainer.get_train_dataloader())
    assert [len(batch["labels"]) for batch in batches] == [128, 128]
    labels = [label for batch in batches for label in batch["labels"].flatten().tolist()]
    assert sum(label != -100 for label in labels) == work.load.target_tokens
    assert len(labels) == work.load.padded_target_tokens
    for _ in range(2):  # every round anew
        contestant._callback.timed = None
        timed = contestant.round()
        assert timed.seconds > 0 and contestant._trainer.state.global_step == 2
    assert contestant._trainer.label_smoother.epsilon == 0.1


def test_all_models_are_of_one_size(make_work: WorkMaker) -> None:
    """Marian attends with biases and keeps its positions among the parameters; apart from them the sizes are the same."""
    work: Work = make_work("budget", 1)
    ours: Any = Ours(work, precision="float32")
    own = sum(p.numel() for p in ours._updater.module.parameters())
    for attention in ("sdpa", "eager"):
        theirs = marian(work, attention)
        trained = [p for p in theirs.parameters() if p.requires_grad]
        biases = [p for name, p in theirs.named_parameters() if "attn." in name and name.endswith(".bias")]
        assert sum(p.numel() for p in trained) - sum(p.numel() for p in biases) == own
        assert theirs.config._attn_implementation == attention and theirs.training
        assert (theirs.config.dropout, theirs.config.attention_dropout) == (0.1, 0.0)


def test_who_runs_by_default() -> None:
    assert {*ON_CPU, *ON_GPU} == KINDS.keys()
    assert ON_CPU[0] == ON_GPU[0] == "marian"
    assert [name for name in KINDS if KINDS[name].is_ours] == ["ours", "ours-bf16", "ours-compiled"]
    assert all(name.startswith("marian") == kind.is_loop for name, kind in KINDS.items())

"""Label-smoothed cross entropy (paper section 5.4) and R-Drop, fused with the output projection.

The float32 matrix [target tokens x vocabulary] is the largest tensor of a training step. Here it never exists as a whole: the
projection, the softmax and both gradients are computed for a chunk of tokens at a time, all in the forward pass, and the backward pass
only scales them.

Shapes: N target tokens of a micro-batch, D = d_model, V = vocabulary; B sentences, S and T padded source and target lengths.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

from ..data.batching import IGNORED_LABEL
from ..parallel_heads import ChainedHeads
from .dropout import WordDropout

CHUNK_TOKENS = {"cpu": 1024}
"""Measured on a CPU (V = 10,000, D = 128): 256 tokens take 7 % longer, 4,096 equally long; the softmax has blocks of its own."""

BLOCK_LOGITS = 2**19
"""The number of logits in one block of the softmax on a CPU: as many as its caches hold."""

CHUNK_MULTIPLES = {"cpu": 128}
"""A CPU makes a kernel for every new shape of a bfloat16 product, so rows of zeros fill the last chunk of a micro-batch to a multiple of
this. Micro-batches of 1,024 tokens, V = 10,000: a training takes 7 % less CPU time."""

ACCELERATOR_CHUNK_TOKENS = 4096
"""Other devices need kernels long enough to hide their launch; 4,096 x 37,000 logits take 0.6 GB."""


class Losses(NamedTuple):
    """Sums over the real target tokens of a micro-batch, as float32 scalars."""

    smoothed: Tensor
    """The objective: cross entropy with the smoothed distribution, and R-Drop's divergence where that is trained with."""
    plain: Tensor
    """Negative log-likelihood of the reference in nats; its mean's exponential is the perplexity. No gradient flows through it."""


def smoothed_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, chunk_tokens: int | None = None) -> Losses:
    """Sum of the label-smoothed cross entropy of `softmax(hidden @ weight.T)`.

    The reference distribution is torch's and Szegedy et al.'s: `1 - smoothing` on the target plus `smoothing / V` on every class, the
    target included. Under autocast the matrix products run in its type; the softmax is always at least float32.

    Args:
        hidden: decoder states [N, D], without padding.
        weight: output projection [V, D].
        targets: token ids [N].
        smoothing: the paper's epsilon_ls, 0.1.
        chunk_tokens: tokens whose logits are held at a time; by default a number that is fast on the device.
    """
    if chunk_tokens is None:
        chunk_tokens = CHUNK_TOKENS.get(hidden.device.type, ACCELERATOR_CHUNK_TOKENS)
    smoothed, plain = _ChunkedCrossEntropy.apply(
        hidden, weight, targets, smoothing, None, chunk_tokens, _matmul_dtype(hidden), torch.is_grad_enabled()
    )
    return Losses(smoothed, plain)


def r_drop_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float, chunk_tokens: int | None = None
) -> Losses:
    """Sum of R-Drop's objective (Wu et al., 2021, section 2.2) over tokens that two passes with different dropout predict as p and q.

    A token costs the mean of both smoothed cross entropies plus `alpha` times the mean of KL(p||q) and KL(q||p), and gradients flow through
    all of them. The paper, and its reference implementation for translation, add both cross entropies and take their `alpha` times the mean
    of both divergences. So this is half of theirs for an `alpha` that is half of theirs: the 5 they translate with is 2.5 here. The
    loss stays that of a token, whatever `alpha`.

    Args:
        hidden: decoder states [N, 2, D] of both passes, without padding.
        weight: output projection [V, D].
        targets: token ids [N].
        smoothing: the paper's epsilon_ls, 0.1.
        alpha: weight of the divergence.
        chunk_tokens: rows of logits that are held at a time, two for a token; by default a number that is fast on the device.
    """
    if chunk_tokens is None:
        chunk_tokens = CHUNK_TOKENS.get(hidden.device.type, ACCELERATOR_CHUNK_TOKENS)
    rows, both = hidden.flatten(0, 1), targets.repeat_interleave(2)
    even = max(chunk_tokens // 2, 1) * 2  # so that both rows of a token are in one chunk
    smoothed, plain = _ChunkedCrossEntropy.apply(rows, weight, both, smoothing, alpha, even, _matmul_dtype(hidden), torch.is_grad_enabled())
    return Losses(smoothed / 2, plain / 2)


class Predictions(NamedTuple):
    """What is predicted a fixed number of tokens ahead, of all target tokens that are so far from their sentence's start."""

    hidden: Tensor
    """States [N, D] that the projection turns into scores."""
    targets: Tensor
    """Token ids [N]."""


class TranslationLoss(nn.Module):
    """Model and loss as one module, so that data-parallel training sees a single forward pass. The model knows nothing of smoothing.

    For a model with parallel heads, the loss is the mean over the tokens 1, 2, ... k ahead. Where only the heads are trained, token 1 is
    left out, and the rest of the model stays in evaluation mode: its states are then those that the heads meet when they translate.
    """

    def __init__(
        self, model: PreTrainedModel, smoothing: float, compiled: bool = False, r_drop: float = 0.0, words: WordDropout | None = None
    ) -> None:
        """
        Args:
            model: any of transformers' sequence-to-sequence models whose scores are its projection of the decoder's states.
            smoothing: the paper's epsilon_ls.
            compiled: pass the model's forward pass through `torch.compile`; translating with the same model is not affected.
            r_drop: above 0, a batch in training passes twice, side by side, and costs `r_drop_cross_entropy` with this `alpha`.
            words: leaves out tokens of both inputs in training; without it, all stay.
        """
        super().__init__()
        self.model = model
        self.words = words
        self.smoothing, self.r_drop = smoothing, r_drop
        self.trains_heads_only = self.heads is not None and not any(part.requires_grad for part in model.base_model.parameters())
        self.first_trained = 1 if self.trains_heads_only else 0
        """Which of the `predictions` is the first to be trained."""
        if self.trains_heads_only:
            model.base_model.eval()
        self._decode: Callable[..., Any] = torch.compile(self._pass, dynamic=True) if compiled else self._pass

    @property
    def heads(self) -> nn.Module | None:
        """The model's parallel heads, if it has any."""
        heads: nn.Module | None = getattr(self.model, "parallel_heads", None)
        return heads

    def train(self, mode: bool = True) -> "TranslationLoss":
        """As of every module; but where only the heads are trained, there is no dropout below them."""
        super().train(mode)
        if self.trains_heads_only:
            self.model.base_model.eval()
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Losses:
        """Losses of one micro-batch.

        Args:
            input_ids: source [B, S].
            attention_mask: 1 on real source tokens [B, S].
            labels: target [B, T], `IGNORED_LABEL` on padding.
            target_positions: where `labels` is real, as indices [N] into its B*T entries; see `target_positions`.
        """
        if self.training and self.r_drop > 0:
            return self._compared(input_ids, attention_mask, labels, target_positions)
        ahead = islice(self.predictions(input_ids, attention_mask, labels, target_positions), self.first_trained, None)
        return mean([self.of(each) for each in ahead])

    def predictions(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Iterator[Predictions]:
        """What the model predicts of a micro-batch: the next token, then those that its parallel heads predict, 2 to k tokens ahead.

        The arguments are those of `forward`; the real tokens of each row of `labels` are its first.
        """
        decoder_input_ids = self.model.prepare_decoder_input_ids_from_labels(labels)
        states, source = self._states(input_ids, attention_mask, decoder_input_ids)
        hidden = states.flatten(0, 1).index_select(0, target_positions)
        targets = labels.flatten().index_select(0, target_positions)
        yield Predictions(hidden, targets)
        if self.heads is None:
            return
        row, column = target_positions // labels.shape[1], target_positions % labels.shape[1]
        chained = isinstance(self.heads, ChainedHeads)
        if chained:
            following = self.model.get_decoder().embed(labels.clamp(min=0), None)
            ahead = self.heads(states, following, source, attention_mask)
        else:
            ahead = self.heads(hidden).unbind(1)
        for step, proposed in enumerate(ahead, start=1):
            # Row n is the state from which token n is the next one; from the row `step` before it, the head looks that much further
            reached = (column >= step).nonzero().squeeze(1)
            if chained:  # [B, T - step, D]
                places = (row * proposed.shape[1] + column - step).index_select(0, reached)
                proposed = proposed.flatten(0, 1)
            else:  # [N, D]
                places = reached - step
            yield Predictions(proposed.index_select(0, places), targets.index_select(0, reached))

    def _compared(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Losses:
        """R-Drop's loss of one micro-batch; the arguments are those of `forward`."""
        inputs = (input_ids, attention_mask, self.model.prepare_decoder_input_ids_from_labels(labels))
        # One pass of twice the batch: dropout draws anew for every row, and data-parallel training sees a single forward pass
        states, _ = self._states(*(torch.cat((each, each)) for each in inputs))
        positions = torch.stack((target_positions, target_positions + labels.numel()), dim=1).flatten()
        hidden, weight = self._projected(states.flatten(0, 1).index_select(0, positions))  # [2N, D], both passes of a token side by side
        targets = labels.flatten().index_select(0, target_positions)
        return r_drop_cross_entropy(hidden.unflatten(0, (-1, 2)), weight, targets, self.smoothing, self.r_drop)

    def of(self, predictions: Predictions) -> Losses:
        """Losses of some predictions, summed."""
        hidden, weight = self._projected(predictions.hidden)
        return smoothed_cross_entropy(hidden, weight, predictions.targets, self.smoothing)

    def right(self, predictions: Predictions) -> Tensor:
        """The number of predictions whose likeliest token is the target."""
        return (self.likeliest(predictions) == predictions.targets).sum()

    @torch.no_grad()
    def likeliest(self, predictions: Predictions) -> Tensor:
        """The likeliest token, or label, of each prediction, [N]."""
        hidden, weight = self._projected(predictions.hidden)
        size = CHUNK_TOKENS.get(hidden.device.type, ACCELERATOR_CHUNK_TOKENS)
        return torch.cat([(states @ weight.t()).argmax(-1) for states in hidden.split(size)])

    def _projected(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """States and the weights that give their scores as `hidden @ weight.T`."""
        projection = self._projection()
        weight: Tensor = projection.weight
        if projection.bias is None:
            return hidden, weight
        # The bias is the weight of one more state, which is always 1
        return nn.functional.pad(hidden, (0, 1), value=1.0), torch.cat((weight, projection.bias.unsqueeze(1)), dim=1)

    def _projection(self) -> Any:
        """The linear map from states to scores."""
        return self.model.get_output_embeddings()

    def _states(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's last states [B, T, D] and the encoder's [B, S, D], with word dropout in training."""
        if self.words is not None and not self.trains_heads_only:
            input_ids, decoder_input_ids = self.words(input_ids), self.words(decoder_input_ids)
        states, source = self._decode(input_ids, attention_mask, decoder_input_ids)
        return states, source

    def _pass(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> Any:
        """The model's forward pass."""
        output = self.model.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            use_cache=False,
        )
        return output.last_hidden_state, output.encoder_last_hidden_state


def mean(losses: Sequence[Losses]) -> Losses:
    """The mean of some losses, kind by kind."""
    if len(losses) == 1:
        return losses[0]
    smoothed, plain = (torch.stack(kind).mean(0) for kind in zip(*losses, strict=True))
    return Losses(smoothed, plain)


def target_positions(labels: Tensor) -> Tensor:
    """Indices [N] of the real tokens among the B*T `labels`.

    Call it while the batch is still on the CPU: on a GPU the number of results must travel back, and the queue of kernels would run dry.
    """
    return (labels.flatten() != IGNORED_LABEL).nonzero().squeeze(1)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Forward computes the loss AND its gradients chunk by chunk; backward multiplies them by the incoming scalar.

    With logits z, probabilities p = softmax(z), smoothing e and the mean row w of the projection, a token costs
    `logsumexp(z) - (1 - e) * z[target] - e * hidden . w`, because the mean of z is hidden . w. The part of the gradient that is the same
    for every class (-e / V) is likewise added once at the end; only `p - (1 - e) * onehot` is ever a matrix.

    With an `alpha`, rows come in pairs, two predictions p and q of one token, and `alpha * (KL(p||q) + KL(q||p))` is added for each pair.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        alpha: float | None,
        chunk_tokens: int,
        dtype: torch.dtype,
        with_gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        wanted = (with_gradients and ctx.needs_input_grad[0], with_gradients and ctx.needs_input_grad[1])
        precise = torch.promote_types(dtype, torch.float32)
        grad_hidden = torch.empty_like(hidden, dtype=precise) if wanted[0] else None
        grad_weight = torch.zeros_like(weight, dtype=precise) if wanted[1] else None
        sums = torch.zeros(2, dtype=precise, device=hidden.device)  # log-sum-exp, target logit
        divergences = sums.new_zeros(())
        with torch.autocast(hidden.device.type, enabled=False):
            projection = weight.to(dtype)
            for start in range(0, len(targets), chunk_tokens):
                chunk = slice(start, start + chunk_tokens)
                ids = targets[chunk].unsqueeze(1)
                states = _filled(hidden[chunk].to(dtype))
                filled = states @ projection.t()  # [chunk, V], and the rows of zeros
                logits = filled[: len(ids)]
                target_logits = logits.gather(1, ids).sum(dtype=precise)
                if alpha is None:
                    normalisers = _slopes_(logits, ids, smoothing, precise, any(wanted))
                else:
                    normalisers, divergence = _slopes_of_pairs_(logits, ids, smoothing, alpha, precise, any(wanted))
                    divergences += divergence
                sums += torch.stack([normalisers, target_logits])
                if grad_hidden is not None:
                    grad_hidden[chunk] = (filled @ projection)[: len(ids)]
                if grad_weight is not None:
                    _add_product(grad_weight, filled.t(), states)  # a row of zeros adds nothing: its scores are zeros, too
            mean_row, states_sum = weight.to(precise).mean(0), hidden.sum(0, dtype=precise)
            if grad_hidden is not None:
                grad_hidden -= smoothing * mean_row
            if grad_weight is not None:
                grad_weight -= smoothing / len(weight) * states_sum
            plain = sums[0] - sums[1]
            smoothed = sums[0] - (1 - smoothing) * sums[1] - smoothing * torch.dot(states_sum, mean_row)
            if alpha is not None:
                smoothed += alpha * divergences
        ctx.gradients, ctx.dtypes = (grad_hidden, grad_weight), (hidden.dtype, weight.dtype)
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_smoothed: Tensor, grad_plain: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [
            None if gradient is None else (gradient * grad_smoothed).to(dtype)
            for gradient, dtype in zip(ctx.gradients, ctx.dtypes, strict=True)
        ]
        return scaled[0], scaled[1], None, None, None, None, None, None


def _slopes_(logits: Tensor, ids: Tensor, smoothing: float, precise: torch.dtype, wanted: bool) -> Tensor:
    """Overwrite `logits` [chunk, V] by `softmax(logits) - (1 - smoothing) * onehot(ids)`; return the sum of their log-sum-exp.

    If the slopes are not `wanted`, only the sum is valid, and `logits` holds garbage. A few rows at a time are widened to `precise`, so
    that they are still in the cache for the next operation.
    """
    total = logits.new_zeros((), dtype=precise)
    rows = max(BLOCK_LOGITS // logits.shape[1], 1) if logits.device.type == "cpu" else len(logits)
    for block, targets in zip(logits.split(rows), ids.split(rows), strict=True):
        wide = block.to(precise)  # the block itself where it is wide enough
        peak = wide.amax(1)
        torch.softmax(wide, 1, out=wide)
        # log p of the likeliest class is at least -log V, so the logarithm's argument never underflows
        total += (peak - wide.amax(1).log()).sum()
        if wanted:
            wide.scatter_add_(1, targets, wide.new_full(targets.shape, smoothing - 1))
            block.copy_(wide)
    return total


def _slopes_of_pairs_(
    logits: Tensor, ids: Tensor, smoothing: float, alpha: float, precise: torch.dtype, wanted: bool
) -> tuple[Tensor, Tensor]:
    """As `_slopes_` for rows [2c, V] that come in pairs; also return the sum of KL(p||q) + KL(q||p), whose slopes are added.

    With d = log p - log q, the slopes of that sum are p * (d - KL(p||q)) + p - q for the first row of a pair, and the same with p and q
    exchanged for the second.
    """
    total, divergences = logits.new_zeros((2,), dtype=precise).unbind()
    rows = max(BLOCK_LOGITS // logits.shape[1] // 2, 1) * 2 if logits.device.type == "cpu" else max(len(logits), 2)
    for block, targets in zip(logits.split(rows), ids.split(rows), strict=True):
        wide = block.to(precise)  # the block itself where it is wide enough
        logs = torch.log_softmax(wide, 1)
        total += (wide.gather(1, targets) - logs.gather(1, targets)).sum()
        pairs = logs.unflatten(0, (-1, 2))  # [c, 2, V]
        chances = torch.exp(logs, out=wide).unflatten(0, (-1, 2))
        difference = pairs[:, 0] - pairs[:, 1]
        means = torch.bmm(chances, difference.unsqueeze(2))  # [c, 2, 1]: KL(p||q) and -KL(q||p)
        divergences += (means[:, 0] - means[:, 1]).sum()
        if wanted:
            for place, sign in ((0, alpha), (1, -alpha)):
                torch.mul(difference, sign, out=pairs[:, place])
                pairs[:, place] += 1 + alpha - sign * means[:, place]
            logs *= wide
            pairs.sub_(chances.flip(1), alpha=alpha)
            logs.scatter_add_(1, targets, logs.new_full(targets.shape, smoothing - 1))
            block.copy_(logs)
    return total, divergences


def _filled(states: Tensor) -> Tensor:
    """`states` [n, D] with rows of zeros below them, to a multiple of the device's `CHUNK_MULTIPLES`."""
    return nn.functional.pad(states, (0, 0, 0, -len(states) % CHUNK_MULTIPLES.get(states.device.type, 1)))


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, where `total` may be wider than the factors."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _matmul_dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype

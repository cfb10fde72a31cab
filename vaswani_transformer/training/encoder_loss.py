"""The loss of the encoder's tasks, fused with the map to the labels as that of translation is with the map to the vocabulary.

That of answers is not: its classes are the positions of a window, and their scores are few.

Shapes: N labels of a micro-batch, D = d_model, C labels to choose from; B texts, S and T the most tokens and labels of one.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..modeling_tasks import (
    VaswaniForMaskedLM,
    VaswaniForQuestionAnswering,
    VaswaniForSequenceClassification,
    VaswaniForTokenClassification,
)
from ..task_inputs import pool
from .loss import Losses, Predictions, TranslationLoss, r_drop_cross_entropy


class TextLabelLoss(TranslationLoss):
    """The loss of a model that gives each text one label."""

    model: VaswaniForSequenceClassification

    def predictions(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Iterator[Predictions]:
        """What the model predicts of a micro-batch; the arguments are those of `TranslationLoss.forward`, with labels [B, 1]."""
        states = self._states(input_ids, attention_mask)
        yield self._read(states, attention_mask, labels.flatten().index_select(0, target_positions), target_positions // labels.shape[1])

    def _compared(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Losses:
        """R-Drop's loss of one micro-batch."""
        states = self._states(torch.cat((input_ids, input_ids)), torch.cat((attention_mask, attention_mask)))
        targets, rows = labels.flatten().index_select(0, target_positions), target_positions // labels.shape[1]
        rows = torch.stack((rows, rows + len(labels)), dim=1).flatten()  # both passes of a label side by side
        read = self._read(states, torch.cat((attention_mask, attention_mask)), targets.repeat_interleave(2), rows)
        hidden, weight = self._projected(read.hidden)
        return r_drop_cross_entropy(hidden.unflatten(0, (-1, 2)), weight, read.targets[::2], self.smoothing, self.r_drop)

    def _read(self, states: Tensor, attention_mask: Tensor, targets: Tensor, rows: Tensor) -> Predictions:
        """The states [N, D] that say the labels, and their numbers [N].

        Args:
            states: the encoder's, [B, S, D].
            attention_mask: [B, S].
            targets: what the corpus holds for each label, [N].
            rows: the text of each label, [N].
        """
        pooled = pool(states, attention_mask, self.model.config.classifier_pooling)
        return Predictions(self.model.dropout(pooled.index_select(0, rows)), targets)

    def _projection(self) -> Any:
        return self.model.classifier

    def _states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        """The encoder's states [B, S, D], with word dropout in training."""
        states: Tensor = self._decode(input_ids if self.words is None else self.words(input_ids), attention_mask)
        return states

    def _pass(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        """The encoder's forward pass."""
        states: Tensor = self.model.base_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return states


class WordLabelLoss(TextLabelLoss):
    """The loss of a model that gives each word a label, at its first token: a target is `place * C + label`."""

    model: VaswaniForTokenClassification

    def _read(self, states: Tensor, attention_mask: Tensor, targets: Tensor, rows: Tensor) -> Predictions:
        places = targets // self.model.num_labels
        hidden = states.flatten(0, 1).index_select(0, rows * states.shape[1] + places)
        return Predictions(self.model.dropout(hidden), targets % self.model.num_labels)


class HiddenTokenLoss(WordLabelLoss):
    """The loss of a masked language model: a target is `place * vocabulary + token`, and there is no dropout before the map."""

    model: VaswaniForMaskedLM

    def _read(self, states: Tensor, attention_mask: Tensor, targets: Tensor, rows: Tensor) -> Predictions:
        size = self.model.config.vocab_size
        return Predictions(states.flatten(0, 1).index_select(0, rows * states.shape[1] + targets // size), targets % size)

    def _projection(self) -> Any:
        return self.model.get_output_embeddings()


class MarkedAnswerLoss(TextLabelLoss):
    """The loss of a model that marks answers: two labels a window, the positions of the answer's first and last token.

    Here `Predictions.hidden` holds the scores themselves, [N, S], with -inf on padding; smoothing is over the real positions of a window.
    """

    model: VaswaniForQuestionAnswering

    def predictions(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Iterator[Predictions]:
        """What the model predicts of a micro-batch; the arguments are those of `TranslationLoss.forward`, with labels [B, 2]."""
        states = self._states(input_ids, attention_mask)
        yield Predictions(self._scores(states, attention_mask), labels.flatten())

    def of(self, predictions: Predictions) -> Losses:
        """Losses of some predictions, summed."""
        logs, targets = predictions.hidden.log_softmax(1), predictions.targets.unsqueeze(1)
        real = logs.isfinite()
        plain = -logs.gather(1, targets).sum()
        spread = -(logs.masked_fill(~real, 0).sum(1) / real.sum(1)).sum()
        return Losses((1 - self.smoothing) * plain + self.smoothing * spread, plain.detach())

    @torch.no_grad()
    def likeliest(self, predictions: Predictions) -> Tensor:
        """The likeliest position of each prediction, [N]."""
        return predictions.hidden.argmax(1)

    def _compared(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, target_positions: Tensor) -> Losses:
        mask = torch.cat((attention_mask, attention_mask))
        scores = self._scores(self._states(torch.cat((input_ids, input_ids)), mask), mask)
        losses = self.of(Predictions(scores, torch.cat((labels, labels)).flatten()))
        first, second = scores.log_softmax(1).chunk(2)
        difference = (first - second).masked_fill(first.isinf(), 0)
        divergence = ((first.exp() - second.exp()) * difference).sum()  # KL(p||q) + KL(q||p)
        return Losses((losses.smoothed + self.r_drop * divergence) / 2, losses.plain / 2)

    def _scores(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        """The scores [2 B, S] of each position as a window's first and last, one row after the other, in float32 at least."""
        scores = self.model.qa_outputs(states)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).transpose(1, 2)
        return scores.masked_fill(attention_mask.unsqueeze(1) == 0, -torch.inf).flatten(0, 1)

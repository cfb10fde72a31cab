"""The encoder for other tasks than translation: classes for texts and for tokens, answers in a text, masked words.

Each of these models is the encoder of section 3.1 and one linear map. A translator's folder loads into any of them: the encoder comes with
its weights, the map is new, and the decoder is left. There is no token before a text as BERT has one, and there are no token types. A pair
of texts is one text, `first </s> second </s>`.

Shapes: B texts, S positions, D = d_model, C classes.
"""

import re
from collections.abc import Collection
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple, logging

from .configuration_vaswani import VaswaniConfig
from .modeling_vaswani import VaswaniEncoder, VaswaniPreTrainedModel
from .task_inputs import check_texts, fitting_labels, fitting_positions, fitting_token_labels, pool, problem_type

logger = logging.get_logger(__name__)


class OnEncoder(VaswaniPreTrainedModel):
    """A model without a decoder: its configuration says so, and it leaves a translator's decoder out, in one sentence."""

    _keys_to_ignore_on_load_unexpected = (r"^(model\.)?decoder\.", r"^lm_head\.", r"^parallel_heads\.")

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config.for_encoder())

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """See `PreTrainedModel.save_pretrained`; `config.architectures` is afterwards what it was."""
        super().save_pretrained(*args, **kwargs)
        self.config.name_encoder()

    def _adjust_missing_and_unexpected_keys(self, loading_info: Any) -> None:
        """transformers calls this once the weights are loaded, before it reports what it missed and what it did not expect."""
        if any(re.match(r"(model\.)?decoder\.", name) for name in loading_info.unexpected_keys):
            logger.warning(f"{type(self).__name__} uses the encoder of this translator; the weights of the decoder are left out.")
        self._warn_of_the_head_of_another(loading_info.missing_keys)
        super()._adjust_missing_and_unexpected_keys(loading_info)

    def _warn_of_the_head_of_another(self, missing: Collection[str]) -> None:
        """The maps of both classifiers have one name and one shape, so that each loads where it means nothing."""
        own = {kind.__name__ for kind in type(self).__mro__}
        others = {"VaswaniForSequenceClassification", "VaswaniForTokenClassification"}
        trained = others.intersection(self.config.architectures or ()) - own
        if trained and own & others and "classifier.weight" not in missing:
            logger.warning(
                f"{type(self).__name__} takes the map to classes of a {trained.pop()}, which was trained for "
                f"{'tokens' if 'VaswaniForSequenceClassification' in own else 'whole texts'}; train it, or load the model as what it is."
            )


class VaswaniEncoderModel(OnEncoder):
    """The encoder by itself (section 3.1), with the weights' names of a translator."""

    _tied_weights_keys = {"encoder.embed_tokens.weight": "shared.weight"}  # noqa: RUF012

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        if config.has_one_embedding:
            self.shared = nn.Embedding(config.vocab_size, config.d_model)
        else:
            self._tied_weights_keys = {}
        self.encoder = VaswaniEncoder(self.config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding."""
        self.encoder.embed_tokens = value
        if self.config.has_one_embedding:
            self.shared = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutput:
        """Encode texts.

        Args:
            input_ids: `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding, left or right.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.

        Returns:
            `last_hidden_state` `[B, S, D]`.
        """
        check_texts(input_ids if input_ids is not None else inputs_embeds, attention_mask)
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kwargs)


class OnEncoderWithHead(OnEncoder):
    """What the models of the tasks share: the encoder as `model`, and what goes in."""

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = VaswaniEncoderModel(self.config)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the embedding."""
        self.model.set_input_embeddings(value)

    def classifier_dropout(self) -> nn.Dropout:
        """The dropout before a map to classes."""
        rate = self.config.classifier_dropout
        return nn.Dropout(self.config.dropout if rate is None else rate)


class VaswaniForSequenceClassification(OnEncoderWithHead):
    """Classes, or numbers, for whole texts: a linear map of the mean of the encoder's states, or of the last one.

    The architecture has no token that stands for a text. A decoder attends to the encoder's states at all positions, so each of them says
    something, and their mean over the real tokens stands for the text here. `config.classifier_pooling = "last"` takes the state at `</s>`.
    """

    # The loss is a mean over texts, which a trainer that accumulates batches divides itself
    accepts_loss_kwargs = False

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.dropout = self.classifier_dropout()
        self.classifier = nn.Linear(config.d_model, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Score the classes of each text.

        Args:
            input_ids: `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding, left or right.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.
            labels: `[B]` class numbers; `[B, C]` of 0 and 1, floats, for several classes a text; for regression, numbers, `[B]` where C
                is 1. `config.problem_type` says which, and otherwise the labels' type and `num_labels` do.

        Returns:
            `logits` `[B, C]` and, with `labels`, transformers' loss for the problem's type.

        Raises:
            ValueError: labels do not fit the texts or the classes, or a text has no token.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        pooled = pool(outputs.last_hidden_state, attention_mask, self.config.classifier_pooling)
        logits = self.classifier(self.dropout(pooled))
        loss = None
        if labels is not None:
            self.config.problem_type = self.config.problem_type or problem_type(labels, self.num_labels)
            labels = fitting_labels(labels, logits, self.config.problem_type)
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions)


class VaswaniForTokenClassification(OnEncoderWithHead):
    """A class for each token: parts of speech, names."""

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.dropout = self.classifier_dropout()
        self.classifier = nn.Linear(config.d_model, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> TokenClassifierOutput:
        """Score the classes of each token.

        Args:
            input_ids: `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding, left or right.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.
            labels: `[B, S]` class numbers, -100 where there is nothing to predict.
            num_items_in_batch: what to divide the summed loss by, where a trainer accumulates batches.

        Returns:
            `logits` `[B, S, C]` and, with `labels`, the cross entropy as a mean over the labels that are not -100.

        Raises:
            ValueError: labels do not fit the tokens or the classes, or a text has no token.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            labels = fitting_token_labels(labels, logits)
            loss = self.loss_function(logits, labels, self.config, num_items_in_batch=num_items_in_batch)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions)


class VaswaniForQuestionAnswering(OnEncoderWithHead):
    """Where in a text the answer to a question begins and ends; question and text are a pair, `question </s> text </s>`."""

    # The loss is a mean over texts, which a trainer that accumulates batches divides itself
    accepts_loss_kwargs = False

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.qa_outputs = nn.Linear(config.d_model, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> QuestionAnsweringModelOutput:
        """Score each token as the answer's first and as its last.

        Args:
            input_ids: `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding, left or right.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.
            start_positions: `[B]`, the answer's first token; it counts for nothing outside of its text, which was cut before it.
            end_positions: `[B]`, its last token.

        Returns:
            `start_logits` and `end_logits` `[B, S]`, the type's lowest number on padding, and with positions the mean of both cross
            entropies.

        Raises:
            ValueError: one of the positions is missing or they do not fit the texts, or a text has no token.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.qa_outputs(outputs.last_hidden_state)
        if attention_mask is not None:
            # Else padding would take part in the softmax over positions, and the loss would depend on the batch.
            logits = logits.masked_fill(attention_mask[..., None] == 0, torch.finfo(logits.dtype).min)
        start_logits, end_logits = (scores.contiguous() for scores in logits.unbind(-1))
        loss = None
        if start_positions is not None or end_positions is not None:
            starts, ends = fitting_positions(start_positions, end_positions, start_logits, attention_mask)
            loss = self.loss_function(start_logits, end_logits, starts, ends)
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start_logits,
            end_logits=end_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class VaswaniForMaskedLM(OnEncoderWithHead):
    """The tokens that stand behind masks (Devlin et al. 2019, section 3.1), by the embedding matrix, as section 3.4 of the paper shares it.

    The map is not called `lm_head`, so that a translator's, which knows the target's tokens, is never taken for it.
    """

    _tied_weights_keys = {  # noqa: RUF012
        "mlm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
    }

    def __init__(self, config: VaswaniConfig) -> None:
        super().__init__(config)
        self.mlm_head = nn.Linear(config.d_model, config.vocab_size, bias=config.lm_head_bias)
        if not config.has_one_embedding:
            self._tied_weights_keys = {"mlm_head.weight": "model.encoder.embed_tokens.weight"}
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """The map to the vocabulary."""
        return self.mlm_head

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the map to the vocabulary."""
        self.mlm_head = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> MaskedLMOutput:
        """Score every token of the vocabulary at every position.

        Args:
            input_ids: `[B, S]`.
            attention_mask: `[B, S]`, 0 on padding, left or right.
            inputs_embeds: `[B, S, D]`, in place of `input_ids`; not scaled.
            labels: `[B, S]`, the tokens behind the masks, and -100 elsewhere.
            num_items_in_batch: what to divide the summed loss by, where a trainer accumulates batches.

        Returns:
            `logits` `[B, S, vocab_size]` and, with `labels`, the cross entropy as a mean over the labels that are not -100.

        Raises:
            ValueError: labels do not fit the tokens or the vocabulary, or a text has no token.
        """
        outputs = self.model(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits = self.mlm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            labels = fitting_token_labels(labels, logits)
            loss = self.loss_function(logits, labels, vocab_size=logits.shape[-1], num_items_in_batch=num_items_in_batch)
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions)


__all__ = [
    "VaswaniEncoderModel",
    "VaswaniForMaskedLM",
    "VaswaniForQuestionAnswering",
    "VaswaniForSequenceClassification",
    "VaswaniForTokenClassification",
]

"""CTranslate2, an engine that runs our checkpoints without PyTorch's: an exported folder, and its search behind `generate`.

```python
model = CTranslate2Model.from_pretrained("exported")
translator = pipeline("translation", model=model, tokenizer=AutoTokenizer.from_pretrained("exported"))
```
"""

import os
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from transformers import GenerationConfig
from transformers.generation.utils import GenerateBeamEncoderDecoderOutput, GenerateEncoderDecoderOutput

from ..beam_search import Penalty
from ..configuration_vaswani import VaswaniConfig
from ..decoding import PaperSearch
from ..files.json_files import read_json
from ..layers import check_ids
from ..packing import int8_saturates
from ..provenance import hardware
from .length_penalty import GNMT_AS_POWER

try:
    import ctranslate2
except ImportError as error:
    raise ImportError(
        "CTranslate2 is not installed: `pip install ctranslate2`, or install this package with its extra `ctranslate2`."
    ) from error

VMAP = "vmap.txt"
"""The engine's name for a shortlist's file."""

_OVERFLOWS = (
    "CTranslate2's products in int8 overflow on this processor, which has no VNNI: 17.1 BLEU in place of 17.7 in one measurement. "
    "Compute in float32, or in int8 with PyTorch. With CT2_USE_MKL=1 in the environment they are right, "
    "and took 8 times as long on an AMD EPYC."
)

PATIENCE = 2.0
"""The engine ends a sentence once it has `num_beams` times this many hypotheses; on 1,000 captions more of them changed nothing."""

HONOURED = {
    "bad_words_ids",
    "bos_token_id",
    "decoder_start_token_id",
    "early_stopping",
    "eos_token_id",
    "extra_length",
    "forced_eos_token_id",
    "length_penalty",
    "length_penalty_type",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "pad_token_id",
    "repetition_penalty",
    "return_dict_in_generate",
    "shortlist",
}
"""The settings of `generate` that do here what they do there."""

WITHOUT_EFFECT = {
    *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "compile_config"),
    *("disable_compile", "prefill_chunk_size", "low_memory", "renormalize_logits"),
    *("transformers_version", "_from_model_config"),
}
"""Settings of sampling, which is refused by name, or of how PyTorch computes: they change no result."""


class EngineHypothesis(NamedTuple):
    """What the engine found for a sentence: its generated tokens, the end among them, and their summed log-probability."""

    token_ids: list[int]
    log_probability: float


def int8_overflows() -> bool:
    """Whether CTranslate2 multiplies int8 here by oneDNN without VNNI, where sums of two products overflow in 16 bits.

    It takes oneDNN on x86 processors that are not Intel's, unless `CT2_USE_MKL` was set when it was imported.
    """
    by_mkl = os.environ.get("CT2_USE_MKL", "0").lower() not in ("", "0", "false") or "Intel" in hardware(torch.device("cpu"), 1)["cpu"]
    return not by_mkl and int8_saturates()


@dataclass(frozen=True)
class Search:
    """The settings of one call."""

    beams: int
    wanted: int
    penalty: float
    is_gnmt: bool
    end_ids: list[int]
    forced_end: int | None
    """What stands in the last place of a translation that the limit cuts off."""
    pad_id: int
    options: dict[str, Any]

    def cut_off(self, token_ids: list[int], limit: int) -> list[int]:
        """`token_ids` of at most `limit` tokens, with the forced end where the limit came before the model's own."""
        if self.forced_end is None or len(token_ids) < limit or token_ids[-1] in self.end_ids:
            return token_ids
        return [*token_ids[:-1], self.forced_end]

    def has_ended(self, hypothesis: EngineHypothesis) -> bool:
        """Whether an end token closes the hypothesis."""
        return not hypothesis.token_ids or hypothesis.token_ids[-1] in self.end_ids

    def score(self, hypothesis: EngineHypothesis) -> float:
        """The log-probability over GNMT's penalty, or Hugging Face's; both count the end."""
        length = max(len(hypothesis.token_ids), 1)
        penalty = Penalty(self.penalty)(length) if self.is_gnmt else length**self.penalty
        return hypothesis.log_probability / penalty

    def best(self, hypotheses: Sequence[EngineHypothesis]) -> list[EngineHypothesis]:
        """The wanted ones, best first; under GNMT's penalty those that were cut off come last."""
        ranked = sorted(hypotheses, key=lambda h: (self.has_ended(h) or not self.is_gnmt, self.score(h)), reverse=True)
        return ranked[: self.wanted]


class CTranslate2Model(PaperSearch):
    """An exported folder behind the interface of a Hugging Face model: `pipeline` and `translate` take it as it is.

    Greedy search is ours, token for token, and so is the engine's beam of open hypotheses. Two rules differ. It ends a
    sentence after a number of hypotheses, where ours ends once nothing open can win; so it is asked for more of them than
    wanted, and they are ranked here by the formula that the settings name. And it passes over an ending that is not among a
    step's `num_beams` best continuations, where ours keeps those among the best `2 * num_beams`; that cannot be undone. On
    1,000 captions, beam 4, GNMT's penalty gives 999 translations as ours does, and Hugging Face's with
    `early_stopping=True` all 1,000; with `early_stopping=False` the engine searches longer, and 3 translations have a better score.

    In a beam search, `bad_words_ids`, `no_repeat_ngram_size` and `min_new_tokens` do what they do there under
    `renormalize_logits=True`, and `repetition_penalty` acts on the logits, as in greedy search. Under `shortlist`, all sentences of a batch
    share the union of their lists, so that a translation may depend on its batch; ours does not.
    """

    training = False
    dtype = torch.float32
    device = torch.device("cpu")
    """Where token ids are expected and returned: the engine, wherever it computes, takes lists."""

    def __init__(
        self,
        engine: ctranslate2.Translator,
        config: VaswaniConfig,
        generation_config: GenerationConfig,
        source_names: list[str],
        target_names: list[str],
        has_vmap: bool = False,
    ) -> None:
        """`source_names`, `target_names`: the engine's name of each token id; `has_vmap`: the folder has a shortlist."""
        self.engine = engine
        self.config = config
        self.generation_config = generation_config
        self.source_names, self.target_names = source_names, target_names
        self.has_vmap = has_vmap
        self.ids = {name: number for number, name in enumerate(target_names)}

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        device: str = "auto",
        compute_type: str = "default",
        intra_threads: int = 0,
        inter_threads: int = 1,
    ) -> Self:
        """Load a folder that `export_ctranslate2` has written.

        Args:
            folder: the exported folder.
            device: `"cpu"`, `"cuda"`, or `"auto"` for the second where there is one.
            compute_type: what to compute in; by default what the weights are stored in, or the nearest that the device has.
            intra_threads: threads of one translation; 0 for CTranslate2's default.
            inter_threads: translations at a time.

        Raises:
            FileNotFoundError: a file of an export is missing.
            ValueError: the device cannot compute in `compute_type`.

        Warns:
            UserWarning: int8 on a processor where `int8_overflows`.
        """
        folder = Path(folder)
        is_shared = not (folder / "source_vocabulary.json").is_file()
        sides = ("shared", "shared") if is_shared else ("source", "target")
        vocabularies = [f"{side}_vocabulary.json" for side in sides]
        for name in ("model.bin", "config.json", *vocabularies, "generation_config.json"):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"{folder} is no exported model: {name} is missing; make one with vaswani export --to ctranslate2.")
        engine = ctranslate2.Translator(
            str(folder),
            device,
            compute_type=compute_type,
            intra_threads=intra_threads,
            inter_threads=inter_threads,
        )
        if engine.device == "cpu" and engine.compute_type.startswith("int8") and int8_overflows():
            warnings.warn(_OVERFLOWS, stacklevel=2)
        source_names, target_names = (read_json(folder / name) for name in vocabularies)
        config, settings = VaswaniConfig.from_pretrained(folder), GenerationConfig.from_pretrained(folder)
        return cls(engine, config, settings, source_names, target_names, (folder / VMAP).is_file())

    def generate(
        self,
        inputs: torch.Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **settings: Any,
    ) -> Any:
        """Translate a batch.

        Args:
            inputs: source token ids `[B, S]`; or by name as `input_ids`.
            generation_config: search settings, in place of the folder's.
            input_ids: source token ids `[B, S]`, padded on either side.
            attention_mask: `[B, S]`, 0 on padding; without it, padding is where the padding token is.
            **settings: any of `HONOURED`, on top.

        Returns:
            Token ids `[B * N, 1 + T]` behind the start token, on the device of the input; with `return_dict_in_generate`
            in Hugging Face's output class, with `sequences_scores` `[B * N]` where it was a beam search. A source that
            is nothing but its end has an empty translation: the engine does not ask the model.

        Raises:
            ValueError: a setting that the engine cannot follow, or a source longer than its table of positions.
        """
        source_ids = inputs if input_ids is None else input_ids
        if source_ids is None:
            raise ValueError("CTranslate2Model.generate got no source; pass token ids as `input_ids`.")
        prepared = self._settings(generation_config, settings)
        search = self._search_of(prepared)
        sources = self._sources(source_ids, attention_mask, search.pad_id)
        limits = self._limits(prepared, generation_config, settings, sources)
        found = [hypothesis for row in self._find(sources, limits, search) for hypothesis in row]
        sequences = self._sequences(found, search.pad_id).to(source_ids.device)
        if not prepared.return_dict_in_generate:
            return sequences
        if search.beams == 1:
            return GenerateEncoderDecoderOutput(sequences=sequences)
        scores = torch.tensor([search.score(hypothesis) for hypothesis in found], device=source_ids.device)
        return GenerateBeamEncoderDecoderOutput(sequences=sequences, sequences_scores=scores)

    def _settings(self, generation_config: GenerationConfig | None, settings: dict[str, Any]) -> GenerationConfig:
        """The call's settings over the folder's, none of them beyond the engine."""
        prepared, unknown = self._prepare_generation_config(generation_config, **settings)
        neutral = GenerationConfig._get_default_generation_params()
        refused = {
            **{name: value for name, value in unknown.items() if value is not None and value is not False},
            **{
                name: value
                for name, value in prepared.to_dict().items()
                if name not in HONOURED | WITHOUT_EFFECT and value not in (None, False, neutral.get(name))
            },
        }
        if prepared.decoder_start_token_id not in (None, self.config.decoder_start_token_id):
            refused["decoder_start_token_id"] = prepared.decoder_start_token_id
        if prepared.shortlist and not self.has_vmap:
            raise ValueError(
                f"This export has no {VMAP}, which the setting `shortlist` asks for; make a shortlist for the checkpoint (vaswani "
                "shortlist) and export it again, or pass shortlist=False."
            )
        if refused:
            named = ", ".join(f"{name}={value!r}" for name, value in refused.items())
            raise ValueError(f"CTranslate2 cannot search with {named}; leave it out, or translate with the PyTorch model.")
        return prepared

    def _search_of(self, prepared: GenerationConfig) -> Search:
        own: Any = self.config  # its token ids are all set
        end = own.eos_token_id if prepared.eos_token_id is None else prepared.eos_token_id
        ends = end if isinstance(end, list) else [end]
        is_gnmt = prepared.length_penalty_type == "gnmt"
        beams = prepared.num_beams
        hypotheses = 1 if beams == 1 else round(beams * (1 if prepared.early_stopping is True else PATIENCE))
        # The engine may find more than it returns, and drops the worst by its own formula: the nearest to ours. Under
        # exactly 0 it would end the search early.
        penalty = prepared.length_penalty * (GNMT_AS_POWER if is_gnmt else 1) or 1e-6
        options = {
            "beam_size": beams,
            "patience": hypotheses / beams,
            "num_hypotheses": hypotheses,
            "length_penalty": penalty,
            "return_scores": beams > 1,
            "return_end_token": True,
            "end_token": ends,
            "max_input_length": 0,
            "min_decoding_length": max(prepared.min_new_tokens or 0, (prepared.min_length or 0) - 1, 0),
            "no_repeat_ngram_size": prepared.no_repeat_ngram_size,
            "repetition_penalty": prepared.repetition_penalty,
            "use_vmap": bool(prepared.shortlist),
            "suppress_sequences": [[self.target_names[number] for number in word] for word in prepared.bad_words_ids or [] if word != ends],
        }
        pad_id = own.pad_token_id if prepared.pad_token_id is None else prepared.pad_token_id
        forced = prepared.forced_eos_token_id
        forced = forced[0] if isinstance(forced, list) else forced
        wanted = prepared.num_return_sequences
        return Search(beams, wanted, prepared.length_penalty, is_gnmt, ends, forced, pad_id, options)

    def _sources(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, pad_id: int) -> list[list[str]]:
        """Names of the tokens of each sentence, without its padding."""
        mask = input_ids != pad_id if attention_mask is None else attention_mask.to(input_ids.device).bool()
        sources = [row[kept].tolist() for row, kept in zip(input_ids, mask, strict=True)]
        longest = max(map(len, sources), default=0)
        if longest > self.config.positions:
            raise ValueError(
                f"A source has {longest} tokens, and this model has positions for {self.config.positions}; split it into sentences."
            )
        check_ids(input_ids, len(self.source_names), "A source has the token id", "the tokenizer is another model's")
        return [[self.source_names[number] for number in source] for source in sources]

    def _limits(
        self,
        prepared: GenerationConfig,
        generation_config: GenerationConfig | None,
        settings: dict[str, Any],
        sources: list[list[str]],
    ) -> list[int]:
        """How many tokens each sentence may get: the caller's one limit, or its own source's plus `extra_length`."""
        given = (settings.get("max_length"), getattr(generation_config, "max_length", None))
        has_default = all(value is None for value in (*given, self.generation_config.max_length))
        if prepared.max_new_tokens is not None:
            limits = [prepared.max_new_tokens] * len(sources)
        elif has_default and prepared.extra_length is not None:
            limits = [max(len(source) + prepared.extra_length, 1) for source in sources]
        else:
            limits = [prepared.max_length - (0 if has_default else 1)] * len(sources)
        if min(limits, default=1) < 1:
            raise ValueError("`max_length` counts the start token too and leaves no room; make it 2 or more.")
        return [min(limit, self.config.positions - 1) for limit in limits]

    def _find(self, sources: list[list[str]], limits: list[int], search: Search) -> list[list[EngineHypothesis]]:
        """The wanted hypotheses of each sentence.

        The engine knows one limit a call. The largest serves all but the sentences that went beyond their own: those are
        searched again, apart.
        """
        found = self._hypotheses(sources, max(limits, default=1), search)
        again: dict[int, list[int]] = defaultdict(list)
        for row, (hypotheses, limit) in enumerate(zip(found, limits, strict=True)):
            if any(len(hypothesis.token_ids) > limit for hypothesis in hypotheses):
                again[limit].append(row)
        for limit, rows in again.items():
            for row, hypotheses in zip(rows, self._hypotheses([sources[row] for row in rows], limit, search), strict=True):
                found[row] = hypotheses
        return [search.best(hypotheses) for hypotheses in found]

    def _hypotheses(self, sources: list[list[str]], limit: int, search: Search) -> list[list[EngineHypothesis]]:
        """All that the engine finds of each sentence, in no order to rely on."""
        results = self.engine.translate_batch(sources, max_decoding_length=limit, **search.options)
        penalty = search.options["length_penalty"]
        found = []
        for result in results:
            scores = result.scores or [0.0] * len(result.hypotheses)
            found.append(
                [
                    EngineHypothesis(
                        search.cut_off([self.ids[name] for name in names], limit),
                        score * len(names) ** penalty,
                    )
                    for names, score in zip(result.hypotheses, scores, strict=True)
                ]
            )
        return found

    def _sequences(self, found: list[EngineHypothesis], pad_id: int) -> torch.Tensor:
        longest = max((len(hypothesis.token_ids) for hypothesis in found), default=0)
        start = self.config.decoder_start_token_id
        padded = [[start, *h.token_ids, *[pad_id] * (longest - len(h.token_ids))] for h in found]
        return torch.tensor(padded, dtype=torch.long)

    def eval(self) -> Self:
        """Nothing to switch: an exported model does not train."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Nothing to switch, and no way to train.

        Raises:
            ValueError: `mode` asks for training.
        """
        if mode:
            raise ValueError("An exported model cannot be trained; train the PyTorch model and export that.")
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The engine stays where `from_pretrained` put it, whatever device a pipeline sends its inputs to."""
        return self

    def can_generate(self) -> bool:
        """Yes: pipelines ask before they accept a model."""
        return True

"""Which tokenizer wrote token ids. This file travels with checkpoints."""

import hashlib
import json

from transformers import PreTrainedTokenizerBase


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of everything that decides which ids a text gets.

    Padding and truncation are left out: they are only what the latest call set in the backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    state = json.loads(backend.to_str()) if backend is not None else tokenizer.get_vocab()
    for transient in ("padding", "truncation"):
        state.pop(transient, None)
    state["split_special_tokens"] = getattr(tokenizer, "split_special_tokens", False)
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


__all__ = ["tokenizer_hash"]

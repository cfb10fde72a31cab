"""A stranger's computer: load a published folder where `vaswani_transformer` cannot be imported, and use it for one sentence.

`publish.check` runs this file as a program. Its arguments are the folder, the task, the sentence and, where there is a choice, the target
language; it prints what the model says as JSON. It must import nothing of the package.
"""

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

AUTO_CLASSES = {
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "fill-mask": "AutoModelForMaskedLM",
    "feature-extraction": "AutoModel",
}
"""What loads a model; all others write text."""


class WithoutThePackage(MetaPathFinder):
    """Hides the package, as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuse the package; leave every other module to the finders that follow."""
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(f"No module named '{name}': the published code must not need it", name=name)
        return None


def use_as_a_stranger(folder: str, task: Any, sentence: str, tgt_lang: str | None = None) -> str:
    """Load `folder` in every way that its card promises; return what the pipeline says of the sentence."""
    sys.meta_path.insert(0, WithoutThePackage())
    import transformers

    transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)  # a stock tokenizer needs no trust
    getattr(transformers, AUTO_CLASSES.get(task, "AutoModelForSeq2SeqLM")).from_pretrained(folder, trust_remote_code=True)
    use: Any = transformers.pipeline(task, model=folder, trust_remote_code=True)
    if task == "question-answering":
        return str(use(question=sentence, context=sentence, handle_impossible_answer=False)["answer"])
    if task == "fill-mask":
        mask = use.tokenizer.mask_token
        before, _, after = sentence.partition(mask)
        one_mask = f"{before}{mask}{after.replace(mask, '')}"  # of several, the pipeline gives each its own list
        return str(use(one_mask)[0]["sequence"])
    if task == "feature-extraction":
        (states,) = use(sentence)
        return f"{len(states)} states of {len(states[0])} numbers"
    if task == "token-classification":
        found = use(sentence, aggregation_strategy="simple", ignore_labels=[])
        return ", ".join(f"{sentence[one['start'] : one['end']].strip()}: {one['entity_group']}" for one in found)
    result = use(sentence, tgt_lang=tgt_lang)[0] if task == "translation" else use(sentence)[0]
    return str(result["label"] if "label" in result else next(iter(result.values())))


if __name__ == "__main__":
    print(json.dumps(use_as_a_stranger(*sys.argv[1:])))

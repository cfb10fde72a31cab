"""A stranger's computer: load a published folder where `vaswani_transformer` cannot be imported, and translate one sentence.

`publish.check` runs this file as a program. Its arguments are the folder, the sentence and, where there is a choice, the target
language; it prints the translation as JSON. It must import nothing of the package.
"""

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class WithoutThePackage(MetaPathFinder):
    """Hides the package, as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuse the package; leave every other module to the finders that follow."""
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(f"No module named '{name}': the published code must not need it", name=name)
        return None


def translate_as_a_stranger(folder: str, sentence: str, tgt_lang: str | None = None) -> str:
    """Load `folder` in every way that its card promises; return the pipeline's translation."""
    sys.meta_path.insert(0, WithoutThePackage())
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    AutoTokenizer.from_pretrained(folder, trust_remote_code=False)  # a stock tokenizer needs no trust
    AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    task: Any = "translation"  # missing in transformers' own type hints
    translator = pipeline(task, model=folder, trust_remote_code=True)
    return translator(sentence, tgt_lang=tgt_lang)[0]["translation_text"]


if __name__ == "__main__":
    print(json.dumps(translate_as_a_stranger(*sys.argv[1:])))

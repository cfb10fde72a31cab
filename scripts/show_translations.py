"""Show what a finished run can do, and where everything of it lies.

    python scripts/show_translations.py runs/NAME

The published folder is loaded as a user loads it, by one line of transformers; the sentences come from the run's test sets, which
training has not seen.
"""

import argparse
import sys
from pathlib import Path

from transformers import pipeline

import vaswani_transformer  # noqa: F401 (brings the model and the translation pipeline to transformers)
from vaswani_transformer.files.json_files import read_json
from vaswani_transformer.run_folder import RunFolder


def show(run: RunFolder, sentences: int) -> None:
    """Print translations, scores and places of a published run."""
    test_sets = read_json(run.evaluation)["test_sets"]
    translator = pipeline("translation", model=str(run.published))
    for test_set in test_sets:
        samples = test_set["samples"][:sentences]
        sources, language = [sample["source"] for sample in samples], test_set.get("tgt_lang")
        for sample, output in zip(samples, translator(sources, tgt_lang=language), strict=True):
            print(f"\n  source       {sample['source']}\n  translation  {output['translation_text']}")
            print(f"  reference    {sample['reference']}")
        scores = ", ".join(f"{name} {result['score']:.2f}" for name, result in test_set["metrics"].items())
        print(f"\n{test_set['name']}, {test_set['pairs']} unseen pairs: {scores}")
    choice = f', tgt_lang="{language}"' if language else ""
    places = {
        "model, ready to publish": run.published,
        "model card": run.published / run.card.name,
        "scores and signatures": run.evaluation,
        "training curves": run.curves,
        "training log": run.log,
    }
    print("\n" + "\n".join(f"{what:<24} {path}" for what, path in places.items()))
    print(f'\nUse it:  import vaswani_transformer\n         from transformers import pipeline\n'
          f'         pipeline("translation", model="{run.published}"{choice})("...")')  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run's folder, assembled by scripts/publish.py")
    parser.add_argument("--sentences", type=int, default=5, help="how many of each test set (default: 5)")
    arguments = parser.parse_args()
    try:
        show(RunFolder(arguments.run), arguments.sentences)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# The whole project in six commands: from nothing to a published translator that one line of transformers loads.
# No download but the packages, no GPU: a small model learns a built-in English-German grammar in a few minutes on two cores.
#     bash scripts/quickstart.sh                               into runs/builtin_tiny; an interrupted run goes on where it was
#     bash scripts/quickstart.sh --set training.updates=100    a shorter look; everything after the name goes to train.py
# RUN names another run folder; VENV an environment that is ready, which is then used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
run=${RUN:-runs/builtin_tiny}
python=${VENV:-.venv}/bin/python

# 1. Every package at a pinned version, so that the result is the same tomorrow.
[ -n "${VENV:-}" ] || make_environment .venv scripts/constraints.txt

# 2. Sentence pairs -> clean pairs -> tokenizer -> token ids -> updates -> checkpoints -> their average.
"$python" scripts/train.py scripts/recipes/builtin_tiny.yaml --run-folder "$run" "$@"

# 3. What the average is worth: BLEU and chrF on sentences that no training pair contains.
"$python" scripts/evaluate_model.py --run "$run"

# 4. The model card: what it was made of, what it can do and what it cannot; every number is read from the run's files.
"$python" scripts/make_card.py "$run"

# 5. The folder as it would go to the Hub, loaded and tried in a process that does not know this package. Nothing is uploaded.
"$python" scripts/publish.py "$run" --dry-run

# 6. A new process, as a user's program would be: pipeline("translation", model=folder).
"$python" scripts/show_translations.py "$run"

#!/usr/bin/env bash
# The whole project in six commands: from nothing to a published translator that one line of transformers loads.
# No download but the packages, no GPU: a small model learns a built-in English-German grammar in a few minutes on two cores.
#     bash scripts/quickstart.sh                               into runs/builtin_tiny; an interrupted run resumes
#     bash scripts/quickstart.sh --set training.updates=100    a shorter look; everything after the name goes to `train`
# RUN names another run folder; VENV an environment that is ready, which is then used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
run=${RUN:-runs/builtin_tiny}
python=${VENV:-.venv}/bin/python

# 1. Every package at a pinned version, so that the result is the same tomorrow.
[ -n "${VENV:-}" ] || make_environment .venv scripts/constraints.txt

# 2. Sentence pairs -> clean pairs -> tokenizer -> token ids -> updates -> checkpoints -> their average.
"$python" -m vaswani_transformer train builtin_tiny --run-folder "$run" "$@"

# 3. What the average is worth: BLEU and chrF on sentences that no training pair contains.
"$python" -m vaswani_transformer evaluate "$run"

# 4. What each attention head looks at; the card shows it.
"$python" -m vaswani_transformer heads "$run"

# 5. The model card: what it was made of, what it can do and what it cannot; every number is read from the run's files.
"$python" -m vaswani_transformer card "$run"

# 6. The folder as it would go to the Hub, tried in a process that does not know this package; nothing is uploaded. Then some translations,
# as a user's program gets them: pipeline("translation", model=folder).
"$python" -m vaswani_transformer publish "$run" --dry-run --show 5

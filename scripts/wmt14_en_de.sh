#!/usr/bin/env bash
# The paper's base model on WMT 2014 English-German, from nothing to the Hub: the table of contents of this project.
#     bash scripts/wmt14_en_de.sh [USER/MODEL]
# Needs the network, about 20 GB of disk, and a GPU or eight: one takes eight micro-batches in turn, eight take one each.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
run=runs/base_wmt14_en_de

# Every package at a pinned version.
make_environment .venv scripts/constraints.txt
source .venv/bin/activate

# 4.5 million pairs from the Hub, cleaned; one vocabulary of 37,000; 100,000 updates; the last five checkpoints averaged.
accelerate launch -m vaswani_transformer train base_wmt14_en_de --run-folder "$run"

# newstest2014: sacreBLEU with its signature, chrF, and the paper's own BLEU.
vaswani evaluate "$run" --published "newstest2014; Vaswani et al. (2017), base; paper_bleu; 27.3"

# The card, with every number read from the run; then the folder, tried in a process without this package, and uploaded if you name a repository.
vaswani card "$run" ${1:+--model-id "$1"}
vaswani publish "$run" ${1:+--repo-id "$1"}

#!/usr/bin/env bash
# All checks of the project, as a contributor and CI run them:
#     bash scripts/test.sh              lint, types, documentation (into build/docs), tests
#     bash scripts/test.sh --lowest     the contract's tests on the oldest versions that pyproject.toml admits
# Everything after that goes to pytest: bash scripts/test.sh -k tokenizer
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

# Two workers with one thread each: small models gain nothing from a second thread, and results do not depend on the machine.
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
tests=(-m pytest -n 2 --durations=15)

# What users' code relies on: public names, saved folders, tokenizer, search.
contract=(
    tests/test_configuration_vaswani.py
    tests/test_modeling_vaswani.py
    tests/test_modeling_parity.py
    tests/test_registration.py
    tests/test_pipeline_translation.py
    tests/test_sentence_splitting.py
    tests/test_search_settings.py
    tests/test_published_code.py
    tests/test_decoding.py
    tests/test_beam_search.py
    tests/test_encoder_pass.py
    tests/test_decoder_step.py
    tests/test_bare_layers.py
    tests/test_packing.py
    tests/test_parallel_heads.py
    tests/interop
    tests/data/test_bpe.py
)

if [ "${1:-}" = "--lowest" ]; then
    make_environment .venv-lowest scripts/constraints-lowest.txt test
    .venv-lowest/bin/python "${tests[@]}" "${contract[@]}" "${@:2}"
    exit
fi

make_environment .venv scripts/constraints.txt
# transformers' own tests of models come with its source archive, not with its wheel.
export TRANSFORMERS_SOURCE=.venv/transformers-source
if [ ! -d "$TRANSFORMERS_SOURCE/tests" ]; then
    pinned=$(grep '^transformers==' scripts/constraints.txt)
    .venv/bin/python -m pip download -qq --disable-pip-version-check --no-deps --no-binary :all: \
        --dest "$TRANSFORMERS_SOURCE" "$pinned"
    tar -xzf "$TRANSFORMERS_SOURCE"/*.tar.gz -C "$TRANSFORMERS_SOURCE" --strip-components 1
fi

# What a page that translates in the browser needs comes from npm; without npm, its tests skip.
if command -v npm >/dev/null; then
    export VASWANI_BROWSER_PACKAGES=$PWD/.venv/browser-packages
    .venv/bin/python -c 'import pathlib, sys
from vaswani_transformer.hub.browser_packages import provide_packages
provide_packages(pathlib.Path(sys.argv[1]))' "$VASWANI_BROWSER_PACKAGES"
    export VASWANI_TRANSFORMERS_JS=$PWD/.venv/transformers-js
    if ! cmp -s tests/hub/transformers_js/package-lock.json "$VASWANI_TRANSFORMERS_JS/installed-from.json"; then
        mkdir -p "$VASWANI_TRANSFORMERS_JS"
        cp tests/hub/transformers_js/package*.json "$VASWANI_TRANSFORMERS_JS"
        (cd "$VASWANI_TRANSFORMERS_JS" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
        cp tests/hub/transformers_js/package-lock.json "$VASWANI_TRANSFORMERS_JS/installed-from.json"
    fi
fi

.venv/bin/ruff check .
.venv/bin/ruff format --check .
# Types and documentation take a core each.
.venv/bin/mypy &
types=$!
# The documentation: no warning, no link that leads nowhere, no public name without a docstring.
rm -rf docs/generated
.venv/bin/python -m sphinx -q -n -W --keep-going docs build/docs
.venv/bin/python -m sphinx -q -W --keep-going -b coverage -d build/docs/.doctrees docs build/docs-coverage
wait "$types"
.venv/bin/python "${tests[@]}" "$@"

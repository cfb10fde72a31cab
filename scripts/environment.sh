# Sourced by quickstart.sh, test.sh and wmt14_en_de.sh, so that all work in the same environment; the caller stands in the repository's root.

# make_environment FOLDER PINS [EXTRAS]: a virtual environment with the package (editable), these extras (all that the tests use, if none is
# named) and everything they need at the versions of the file PINS.
# It is reused until pyproject.toml or PINS changes. torch goes in first and by its pin, so that no other package's wish for it is ever asked.
make_environment() {
    local folder=$1 pins=$2 extras=${3:-test,test-pages,attribution,browser,demo} stamp=$1/installed-from.txt
    if [ -x "$folder/bin/python" ] && cat pyproject.toml "$pins" | cmp -s - "$stamp"; then
        return
    fi
    if ! "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python bash $0" >&2
        return 1
    fi
    echo "Installing into $folder what $pins names (about two minutes) ..."
    "${PYTHON:-python3}" -m venv --clear "$folder"
    local install=("$folder/bin/python" -m pip install -qq --disable-pip-version-check --constraint "$pins")
    # seqeval comes as source only and names no tool that builds it: without setuptools-scm, its version would be 0.0.0 and be refused.
    "${install[@]}" torch hatchling editables setuptools-scm
    "${install[@]}" --no-build-isolation --editable ".[$extras]"
    cat pyproject.toml "$pins" >"$stamp"
}

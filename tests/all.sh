#!/bin/sh
# Runs all tests: sh tests/all.sh [pytest options]
#
# Needs Python 3.11 or newer (PYTHON names another than python3) and, when the environment
# beside this checkout is made, a package index. It is made anew when pyproject.toml changes.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "tests/all.sh: $("$python" --version) is too old; set PYTHON to a Python 3.11 or newer" >&2
  exit 1
}

wanted=$("$python" --version; cksum pyproject.toml)
if [ "$(cat .venv/made-for 2>/dev/null)" != "$wanted" ]; then
  "$python" -m venv --clear .venv || {
    echo "tests/all.sh: no venv module; on Debian: apt-get install python3-venv" >&2
    exit 1
  }
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
  echo "$wanted" >.venv/made-for
fi

# Compiled once, not by each worker and each process that the tests start.
unset PYTHONDONTWRITEBYTECODE

exec .venv/bin/python -m pytest -n auto --dist worksteal -rs "$@"

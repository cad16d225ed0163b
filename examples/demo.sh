#!/bin/sh
# Installs reconcile into ./demo, makes an example there, and runs its night.
# Call it again: nothing is due until the next midnight UTC.
set -eu
cd "$(dirname "$0")/.."

installed=demo/.venv/installed
if [ ! -e "$installed" ] ||
  [ -n "$(find pyproject.toml __init__.py cli core stores man -newer "$installed" ! -path '*/__pycache__*')" ]; then
  echo "Installing reconcile into demo/.venv, which takes half a minute or more ..."
  "${PYTHON:-python3}" -m venv demo/.venv
  demo/.venv/bin/python -m pip install --quiet --disable-pip-version-check .
  touch "$installed"
fi

call() {
  echo "\$ demo/.venv/bin/reconcile -c demo/reconcile.toml $*"
  demo/.venv/bin/reconcile -c demo/reconcile.toml "$@"
  echo
}

if [ ! -e demo/reconcile.toml ]; then
  demo/.venv/bin/reconcile -q -c demo/reconcile.toml init --demo
  echo "In demo: reconcile.toml (one nightly job), export.csv (what 2,400 accounts should have)"
  echo "and app.db (what they have). What a run would change, then the run, then how it stands:"
  echo
  call run entitlements --dry-run
fi
call run entitlements
call status
echo "The night with its runs and its trail (call it from $PWD):"
echo "  demo/.venv/bin/reconcile -c demo/reconcile.toml status entitlements latest"

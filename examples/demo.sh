#!/bin/sh
# Installs reconcile into ./demo, makes an example there, and runs its night.
# Call it again: nothing is due until the next midnight UTC.
set -eu
cd "$(dirname "$0")/.."

installed=demo/.venv/installed
if [ ! -e "$installed" ] ||
  [ -n "$(find pyproject.toml __init__.py cli core stores -newer "$installed" ! -path '*/__pycache__*')" ]; then
  "${PYTHON:-python3}" -m venv demo/.venv
  demo/.venv/bin/python -m pip install --quiet --disable-pip-version-check .
  touch "$installed"
fi

cd demo
[ -e reconcile.toml ] || .venv/bin/reconcile init --demo
.venv/bin/reconcile run entitlements
.venv/bin/reconcile status

#!/bin/sh
# A smoke job for CI, before a new version of reconcile, Python or the store's server goes live.
#
#   smoke.sh                                a SQLite store
#   smoke.sh postgresql://ci@db.internal/ci a store on a server, as the live one has
#
# Works a demo job in a folder of its own, has it checked, and rehearses all promises. The exit
# status is that of the first command that fails; 1 of the drill names the promise that broke.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

reconcile init --demo
if [ $# -gt 0 ]; then
  umask 077
  printf '%s' "$1" >store.url        # an address may have a password in it
  sed -i 's/^url = .*/url_file = "store.url"/' reconcile.toml
fi
reconcile run entitlements
reconcile status --check
reconcile drill

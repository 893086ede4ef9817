#!/usr/bin/env bash
# Audits real MCP servers, and one whose faults are known, and checks what is known of them. Exits non-zero on any other outcome.
# HOLDFAST names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")"

if ! cmp -s package-lock.json node_modules/.installed; then
  fetched=
  for wait in 5 15 0; do
    if npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 4 --loglevel error; then fetched=yes; break; fi
    [[ $wait == 0 ]] || { echo "npm ci failed; once more in $wait s" >&2; sleep "$wait"; }
  done
  [[ -n $fetched ]] || { echo "the MCP servers cannot be fetched: is $(npm config get registry) reachable?" >&2; exit 1; }
  cp package-lock.json node_modules/.installed
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -n ${HOLDFAST:-} ]]; then cp "$HOLDFAST" "$work/holdfast"; else (cd ../.. && go build -o "$work/holdfast" ./cmd/holdfast); fi
(cd ../.. && go build -o "$work/server31" ./test/mcp/server31)
node check.mjs "$work/holdfast" "$work/server31" "$work"

#!/usr/bin/env bash
# Runs both examples against a simulator and a gateway of their own, and checks that each was one call.
# HOLDFAST names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d) pids=()
clean() {
  for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT

holdfast=${HOLDFAST:-}
if [[ -z $holdfast ]]; then
  holdfast=$work/holdfast
  (cd ../.. && go build -o "$holdfast" ./cmd/holdfast)
fi
(cd go && go build -o "$work/quickstart" .)

# up WORDS FILE: waits until the file has them.
up() {
  local _
  for _ in $(seq 300); do
    if grep -q "$1" "$2" 2>/dev/null; then return; fi
    kill -0 "${pids[@]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work"/*.log
  exit 1
}

"$holdfast" sim --listen 127.0.0.1:0 >"$work/sim.log" 2>&1 &
pids+=($!)
up 'simulator on' "$work/sim.log"
sim=$(sed -n 's/^simulator on \(http:[^ ]*\).*/\1/p' "$work/sim.log")
"$holdfast" serve --store "sqlite:$work/holdfast.db" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --ready-file "$work/ready" \
  --upstream "openai=$sim/v1" >"$work/gateway.log" 2>&1 &
pids+=($!)
up listen "$work/ready"
base=http://$(sed 's/.*"listen":"\([^"]*\)".*/\1/' "$work/ready")/v1

# once LABEL COMMAND…: the command's two requests must be one call of the provider.
calls() { curl -fs "$sim/sim/v1/stats" | sed 's/^{"total":{"calls":\([0-9]*\).*/\1/'; }
once() {
  local label=$1 before after
  shift
  before=$(calls)
  echo "=== $label"
  "$@"
  after=$(calls)
  [[ $((after - before)) == 1 ]] || { echo "$label: $((after - before)) calls of the provider"; exit 1; }
}
once curl env BASE_URL="$base" ./curl.sh
once go env OPENAI_BASE_URL="$base" OPENAI_API_KEY=sk-example "$work/quickstart"

#!/usr/bin/env bash
# Runs the example against a simulator of its own, and checks that the question was one call. HOLDFAST names a program
# that is built already.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d) sim=
clean() {
  [[ -z $sim ]] || { kill "$sim" && wait "$sim"; } 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT

holdfast=${HOLDFAST:-}
if [[ -z $holdfast ]]; then
  holdfast=$work/holdfast
  (cd ../.. && go build -o "$holdfast" ./cmd/holdfast)
fi
go build -o "$work/library" .

"$holdfast" sim --listen 127.0.0.1:0 >"$work/sim.log" 2>&1 &
sim=$!
for _ in $(seq 300); do
  if grep -q 'simulator on' "$work/sim.log"; then break; fi
  sleep 0.1
done
url=$(sed -n 's/^simulator on \(http:[^ ]*\).*/\1/p' "$work/sim.log")
OPENAI_BASE_URL=$url/v1 OPENAI_API_KEY=sk-example "$work/library"
calls=$(curl -fs "$url/sim/v1/stats" | sed 's/^{"total":{"calls":\([0-9]*\).*/\1/')
[[ $calls == 1 ]] || { echo "$calls calls of the provider, not one"; exit 1; }

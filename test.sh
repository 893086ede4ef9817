#!/usr/bin/env bash
# The whole test programme: every check that a change must pass.
#
#   ./test.sh               everything
#   ./test.sh race fuzz     these stages only
#   ./test.sh --list        what the stages are
#   ./test.sh --help        this
#
# Go is all it asks for. What else it needs — a C compiler for the race detector, npm for the JavaScript clients, Postgres — it
# installs with apt-get when it runs as root on Debian or Ubuntu, and names otherwise.
set -euo pipefail
cd "$(dirname "$0")"

# A clone that belongs to another user makes git refuse, and the go command with it; no test reads the stamp.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

stages=(format paths modules vet staticcheck build test race fuzz mutants crash replicas degrade sdk mcp audit examples)
declare -A about=(
  [format]="gofmt, and no leftovers of a merge"
  [paths]="no file names a folder of somebody's machine"
  [modules]="go.mod and go.sum are tidy and what they say is what is there"
  [vet]="go vet, also of the build with deliberate faults"
  [staticcheck]="staticcheck, likewise"
  [build]="every package and the program; HOLDFAST_FULL=1 for macOS and Windows too"
  [test]="every package's tests"
  [race]="the same under the race detector"
  [fuzz]="each fuzz target for a while; HOLDFAST_FULL=1 for ten minutes each, HOLDFAST_FUZZ=1m for as long as that"
  [mutants]="deliberate faults in the code, each of which a named test must notice"
  [crash]="kill -9 of real processes; HOLDFAST_FULL=1 for the whole programme instead of a tenth"
  [replicas]="several gateways on one Postgres behind a balancer, killed, stopped, cut off; HOLDFAST_FULL=1 for 10,000 operations instead of a tenth"
  [degrade]="a gateway whose tiers fail, one after the other, down to cache and default answer; HOLDFAST_FULL=1 for 10,000 requests of each instead of 1,000"
  [sdk]="official SDKs against the simulator, and through the gateway with the base URL changed"
  [mcp]="official MCP clients and real MCP servers with the proxy between them, over every pair of transports"
  [audit]="the double-send audit of real MCP servers and of one whose 31 write tools have known faults, also through the proxy"
  [examples]="examples/quickstart, with curl and with the official Go client; examples/library, a program with the engine inside"
)

# What needs the official SDKs is a module of its own, so that no user of this one downloads them.
modules="test/sdk/go test/mcp/go test/river examples/quickstart/go examples/library"

# --- stages

sources() { find . -name '*.go' -not -path '*/node_modules/*' -not -path './.git/*'; }

stage_format() {
  local bad
  bad=$(sources | xargs gofmt -l)
  [[ -z $bad ]] || { echo "not formatted; run gofmt -w:"; echo "$bad"; return 1; }
  bad=$(grep -rnIE --exclude-dir=.git --exclude-dir=node_modules '^(<<<<<<<|>>>>>>>) ' . || true)
  [[ -z $bad ]] || { echo "a merge was left half done:"; echo "$bad"; return 1; }
}

stage_paths() {
  # Split, so that this line does not find itself.
  local bad words='/(ro''ot|wo''rk|ho''me/[a-z]+|Us''ers/[a-z]+|tm''p/[a-z]{2,4})/'
  bad=$(grep -rnIE --exclude-dir=.git --exclude=.git --exclude-dir=node_modules --exclude=go.sum "(^|[^a-zA-Z0-9_.~})-])$words" . || true)
  [[ -z $bad ]] || { echo "$bad" | cut -c1-200; return 1; }
}

stage_modules() {
  local dir
  for dir in . $modules; do
    (
      cd "$dir"
      persist "the Go modules of $dir cannot be fetched: is $(go env GOPROXY) reachable?" go mod download
      go mod verify
      go mod tidy -diff
    )
  done
}

# tagged are the packages that the tag for deliberate faults changes; the mutants stage compiles all others with it.
tagged() {
  local form='{{.ImportPath}} {{.GoFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}'
  comm -13 <(go list -f "$form" ./... | sort) <(go list -tags mutant -f "$form" ./... | sort) | cut -d' ' -f1
}

stage_vet() {
  go vet ./...
  go vet -tags mutant $(tagged)
  local dir
  for dir in $modules; do (cd "$dir" && go vet ./...); done
}

stage_staticcheck() {
  go build -o "$work/staticcheck" honnef.co/go/tools/cmd/staticcheck
  "$work/staticcheck" ./...
  "$work/staticcheck" -tags mutant $(tagged)
  local dir
  for dir in $modules; do (cd "$dir" && "$work/staticcheck" ./...); done
}

stage_build() {
  go build ./...
  go build -o "$work/holdfast" ./cmd/holdfast
  "$work/holdfast" --version
  [[ -n ${HOLDFAST_FULL:-} ]] || return 0 # compiling SQLite for another system takes minutes
  local os
  for os in darwin windows; do
    CGO_ENABLED=0 GOOS=$os GOARCH=arm64 go build -o "$work/holdfast-$os" ./cmd/holdfast
    echo "$os/arm64 ok"
  done
}

# go_test FLAGS… PACKAGES…: go test, its failures in full, its counts for the table.
go_test() { go test -json -timeout 40m "$@" | "$work/tally" "$work/$stage.count"; }

# The packages that take longest. They come first, so that all the others are compiled and run beside them.
longest="internal/gateway test/simulation ledger/sqlite . internal/cli"

# units are the packages; what lies under test/ starts programs and has stages of its own.
units() {
  local first
  first=$(go list $(printf './%s ' $longest))
  echo "$first"
  go list ./... | grep -v '/test/\(crash\|replicas\|degrade\|mutants\|mcp\)' | grep -vxF "$first"
}

stage_test() {
  need curl curl ca-certificates
  need_postgres
  need_redis
  go_test $(units)
}

# concurrent is Go code that begins a goroutine, or has somebody else begin one.
concurrent='(^|[^[:alnum:]_."])go (func|[[:alpha:]_.]+\()|\.Go\(|AfterFunc|\.(Run)?Parallel\(|synctest\.|httptest\.|net\.Listen|http\.Serve'

# sequential are the packages whose tests run in one goroutine from end to end: neither they, nor their tests, nor what
# they import of this module begins another. There the race detector could never find anything.
sequential() {
  local module own
  module=$(go list -m)
  # The package of each file with such code, and "own" for those in which it is test code alone.
  sources | xargs grep -lE "$concurrent" | sed -E "s|^\.|$module|; s|/[^/]*_test\.go$| test|; s|/[^/]*\.go$||" | sort -u >"$work/concurrent"
  go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk -v list="$work/concurrent" '
    BEGIN { while ((getline line < list) > 0) { n = split(line, f, " "); any[f[1]] = 1; if (n == 1) code[f[1]] = 1 } }
    $1 ~ /\.test$/ {
      p = substr($1, 1, length($1) - 5)
      if (any[p]) next
      for (i = 2; i <= NF; i++) if (code[$i]) next
      print p
    }'
}

stage_race() {
  need cc gcc libc6-dev
  need curl curl ca-certificates
  need_postgres
  need_redis
  # Left out besides: what runs one goroutine at a time thousands of times over (power cuts, torn logs, bombs, the
  # simulation), and bench, which starts programs. All of it runs without the detector.
  local left_out
  left_out=$(sequential)
  CGO_ENABLED=1 go_test -race -skip '^(TestPowerCuts|TestTornLog|TestBombs)$' \
    $(units | grep -v '/test/simulation$\|/internal/bench$' | grep -vxF "${left_out:-none}")
}

stage_mutants() { go_test -count=1 -timeout 45m ./test/mutants/...; } # a few seconds for each of many

stage_crash() { go_test -count=1 ./test/crash/...; }

stage_replicas() {
  need_postgres
  go_test -count=1 ./test/replicas/...
}

stage_degrade() {
  local code=0
  HOLDFAST_REPORT=$work/degrade.txt go_test -count=1 ./test/degrade/... || code=$?
  cat "$work/degrade.txt" # who answered, and why nobody did
  return "$code"
}

stage_audit() {
  need npm npm
  local log=$work/audit.log code=0 program
  go_test ./test/mcp/server31/... || code=$? # that the faults are there which the audit must find
  mv "$work/audit.count" "$work/office.count"
  program=$(holdfast)
  HOLDFAST=$program test/audit/run.sh 2>&1 | tee "$log" || code=$?
  { cat "$work/office.count"; count_summary "$log"; } | awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' >"$work/audit.count"
  return "$code"
}

stage_sdk() {
  need npm npm
  need curl curl ca-certificates
  local log=$work/sdk.log code=0 program
  program=$(holdfast)
  HOLDFAST=$program test/sdk/run.sh 2>&1 | tee "$log" || code=$?
  count_summary "$log" >"$work/sdk.count"
  return "$code"
}

stage_mcp() {
  need npm npm
  need pgrep procps
  local log=$work/mcp.log code=0 program
  program=$(holdfast)
  HOLDFAST=$program test/mcp/run.sh 2>&1 | tee "$log" || code=$?
  count_summary "$log" >"$work/mcp.count"
  return "$code"
}

# count_summary LOG: passed, failed and skipped over all lines that sum up.
count_summary() {
  awk '/ passed, [0-9]+ failed, / { for (i = 2; i < NF; i++) { if ($(i+1) ~ /^passed/) p += $i; if ($(i+1) ~ /^failed/) f += $i; if ($(i+1) ~ /^skipped/) s += $i } }
    END { print p + 0, f + 0, s + 0 }' "$1"
}

stage_examples() {
  need curl curl ca-certificates
  local program
  program=$(holdfast)
  HOLDFAST=$program examples/quickstart/run.sh
  HOLDFAST=$program examples/library/run.sh
}

# Parsers of what strangers send get longer: streams, the canonical form of a body, heads and headers, YAML.
long_fuzz="internal/gateway:FuzzRequest internal/upstream:FuzzAnswer internal/sse:FuzzParser idempotency:FuzzCanonical internal/canon:FuzzForm internal/policy:FuzzParse"

stage_fuzz() {
  local file line dir name time each=${HOLDFAST_FUZZ:-${HOLDFAST_FULL:+10m}} jobs=() code=0
  while IFS=: read -r file line; do
    dir=$(dirname "${file#./}") name=${line#func } name=${name%%(*} time=${each:-6s}
    [[ -z $each && " $long_fuzz " == *" $dir:$name "* ]] && time=30s
    jobs+=("$dir $name $time")
  done < <(sources | xargs grep -E '^func Fuzz[A-Za-z0-9_]+\(' /dev/null)
  for name in $long_fuzz; do
    [[ " ${jobs[*]} " == *" ${name%:*} ${name#*:} "* ]] || { echo "there is no fuzz target $name"; code=1; }
  done
  # Binaries first, so that the time given to a target is spent on it.
  mkdir -p "$work/fuzz"
  printf '%s\n' "${jobs[@]}" | cut -d' ' -f1 | sort -u | xargs -I{} sh -c \
    'go test -c -fuzz=Fuzz -o "$0/$(echo {} | tr / _).test" ./{}' "$work/fuzz"
  # The long ones first, two at a time.
  export -f fuzz_one
  printf '%s\n' "${jobs[@]}" | sort -t' ' -k3,3n | tac | xargs -P 2 -L 1 bash -c 'fuzz_one "$@"' "$work/fuzz" || code=1
  local fails passes
  fails=$(find "$work/fuzz" -name '*.failed' | wc -l) passes=$(find "$work/fuzz" -name '*.ok' | wc -l)
  [[ $((fails + passes)) == "${#jobs[@]}" ]] || code=1
  echo "$passes $fails 0" >"$work/fuzz.count"
  return "$code"
}

# fuzz_one FOLDER NAME TIME, with the folder of binaries as $0. The engine's own end of the time is sometimes a failure of
# its own (golang.org/issue/75804): a line "context deadline exceeded" and no input. That found nothing, and is tried
# once more. What names an input is never tried again.
fuzz_one() {
  local dir=$1 name=$2 time=$3 bin=$0/${1//\//_}.test log=$0/${1//\//_}.$2.log try
  mkdir -p "$0/cache"
  for try in 1 2; do
    if (cd "$dir" && "$bin" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="$time" -test.fuzzminimizetime=1x \
      -test.parallel=1 -test.fuzzcachedir="$0/cache/$dir") >"$log" 2>&1; then
      echo "ok    $dir $name $time: $(grep -o 'execs: [0-9]*' "$log" | tail -1)"
      : >"${log%.log}.ok"
      return 0
    fi
    grep -qxE ' *context deadline exceeded' "$log" && ! grep -qE 'Failing input|seed corpus' "$log" || break
    [[ $try == 2 ]] || echo "again $dir $name: the engine's context deadline exceeded, without an input"
  done
  echo "FAIL  $dir $name"
  tail -n 60 "$log"
  : >"${log%.log}.failed"
  return 1
}

# --- what they need

# holdfast prints the path of a program that is built once.
holdfast() {
  [[ -x $work/holdfast ]] || go build -o "$work/holdfast" ./cmd/holdfast
  echo "$work/holdfast"
}

# persist REMEDY COMMAND…: runs a command that asks a server, three times if need be, and ends with the remedy if it
# fails each time.
persist() {
  local remedy=$1 wait
  shift
  for wait in 5 15 0; do
    "$@" && return 0
    [[ $wait == 0 ]] || { echo "$1 failed; once more in $wait s" >&2; sleep "$wait"; }
  done
  echo "$remedy" >&2
  return 1
}

install_packages() {
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@"; } >"$work/apt.log" 2>&1 ||
    { tail -n 20 "$work/apt.log"; return 1; }
}

# need COMMAND PACKAGE…: installs the packages where the command is missing.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null && return 0
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "$command is missing: install $*, or run this as root on Debian or Ubuntu"
    return 1
  fi
  echo "installing $*"
  persist "$command is missing and $* cannot be installed: is a Debian mirror reachable? With $command in the path nothing is installed" \
    install_packages "$@"
}

# need_redis installs Redis where it is missing, and lets no test be skipped for want of it. Tests run servers of their own.
need_redis() {
  command -v redis-server >/dev/null || need redis-server redis-server
  export HOLDFAST_TEST_REDIS=required
}

# need_postgres installs Postgres where it is missing, and lets no test be skipped for want of it. Debian keeps its
# programs outside of the path. Tests run servers of their own, as the user postgres where this is root.
need_postgres() {
  if ! command -v initdb >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
    need initdb postgresql
  fi
  export HOLDFAST_TEST_POSTGRES=required
}

# --- the run

# A function is read whole before it runs: the script may be edited meanwhile.
main() {
  local stage arg start code word p f s
  if [[ ${1:-} == --list ]]; then
    for stage in "${stages[@]}"; do printf '%-12s %s\n' "$stage" "${about[$stage]}"; done
    exit 0
  fi
  if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    sed -n '/^#!/d; /^#/!q; s/^# \{0,1\}//p' test.sh # the words above
    exit 0
  fi
  for arg in "$@"; do
    [[ -n ${about[$arg]:-} ]] || { echo "there is no stage $arg; ./test.sh --list names them" >&2; exit 2; }
  done
  command -v go >/dev/null || { echo "go is missing: https://go.dev/dl has it; 1.26 or later" >&2; exit 2; }

  work=$(mktemp -d)
  export work
  trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
  go build -o "$work/tally" ./test/tally

  local table=() failed=0 passes=0 fails=0 skips=0 begun=$SECONDS
  for stage in "${stages[@]}"; do
    [[ $# == 0 || " $* " == *" $stage "* ]] || continue
    printf '\n=== %s: %s\n' "$stage" "${about[$stage]}"
    start=$SECONDS code=0
    set +e # not `if`, which would switch off errexit inside the stage
    (set -e; "stage_$stage")
    code=$?
    set -e
    p=1 f=0 s=0
    if [[ -s $work/$stage.count ]]; then read -r p f s <"$work/$stage.count"; elif [[ $code != 0 ]]; then p=0; fi
    # A stage that says that it counted nothing has shown nothing.
    [[ $p != 0 || $f != 0 ]] || f=1 code=1
    [[ $code == 0 || $f != 0 ]] || f=1
    if [[ $code == 0 && $f == 0 ]]; then word=ok; else word=FAILED failed=1; fi
    passes=$((passes + p)) fails=$((fails + f)) skips=$((skips + s))
    table+=("$(printf '%-12s %-7s %7d %7d %8d %6ds' "$stage" "$word" "$p" "$f" "$s" $((SECONDS - start)))")
  done

  printf '\n%-12s %-7s %7s %7s %8s %7s\n' stage result passed failed skipped time
  printf '%s\n' "${table[@]}"
  printf '%-12s %-7s %7d %7d %8d %6ds\n' total "$([[ $failed == 0 ]] && echo ok || echo FAILED)" "$passes" "$fails" "$skips" $((SECONDS - begun))
  exit "$failed"
}

main "$@"

#!/usr/bin/env bash
# The same request twice, with one Idempotency-Key: one call of the provider, one answer.
# Wants a gateway on BASE_URL, for instance: holdfast sim & holdfast serve --upstream openai=http://127.0.0.1:9797/v1
set -euo pipefail
base=${BASE_URL:-http://127.0.0.1:8787/v1}

ask() {
  curl -sS -D - "$base/chat/completions" \
    -H "Authorization: Bearer ${OPENAI_API_KEY:-sk-example}" -H 'Content-Type: application/json' -H 'Idempotency-Key: order-4711' \
    -d '{"model": "gpt-5", "messages": [{"role": "user", "content": "Thank the customer for order 4711."}]}' |
    grep -iE '^(HTTP|Holdfast-(Intent|Source)|Idempotency-Replayed)|"content"'
}

echo '--- first'
ask
echo '--- again, as if the first reply had been lost'
ask

package idempotency_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-ai/holdfast/idempotency"
)

// conversation is a chat request of about size bytes as an SDK sends it: members in the order of its structs.
func conversation(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5","messages":[{"role":"system","content":"You are a billing assistant. Answer from the documents given."}`)
	for i := 0; b.Len() < size-700; i++ {
		fmt.Fprintf(&b, `,{"role":"user","content":"Question %d: what does invoice %d of café Zoë say about the “late fee” clause?\nPlease quote the line, then explain it in one sentence for a reader who has not seen the document before."}`, i, 1000+i)
		fmt.Fprintf(&b, `,{"role":"assistant","content":"It says: \"A fee of 2.5 %% is due after 30 days\" (line %d). The customer pays a little more for each month of delay."}`, 40+i)
	}
	b.WriteString(`],"temperature":0.20,"max_completion_tokens":1000,"seed":42,"tools":[{"type":"function","function":{"name":"lookup_invoice","description":"Look up an invoice by its number","parameters":{"type":"object","properties":{"id":{"type":"integer"},"verbose":{"type":"boolean"}},"required":["id"],"additionalProperties":false}}}],"tool_choice":"auto","metadata":{"trace":"t-1"}}`)
	return b.Bytes()
}

// BenchmarkKey prints the key of an 8 KB body beside the same by jsontext and by decoding and encoding.
func BenchmarkKey(b *testing.B) {
	k, err := idempotency.New(idempotency.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1 << 10, 8 << 10, 64 << 10} {
		r := &idempotency.Request{Env: "production", Tenant: "main", Workflow: "chat", Method: "POST", Path: "/v1/chat/completions", Body: conversation(size)}
		name := fmt.Sprintf("%dKB", size>>10)
		b.Run(name+"/holdfast", func(b *testing.B) {
			key := make([]byte, 0, 128)
			b.SetBytes(int64(len(r.Body)))
			b.ReportAllocs()
			for b.Loop() {
				key, _ = k.AppendDerivedKey(key[:0], r, k.Fingerprint(r))
			}
		})
		b.Run(name+"/jsontext", func(b *testing.B) {
			b.SetBytes(int64(len(r.Body)))
			b.ReportAllocs()
			for b.Loop() {
				v := jsontext.Value(bytes.Clone(r.Body))
				if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
					b.Fatal(err)
				}
				sha256.Sum256(v)
			}
		})
		b.Run(name+"/decode-encode", func(b *testing.B) {
			b.SetBytes(int64(len(r.Body)))
			b.ReportAllocs()
			for b.Loop() {
				var v any
				if err := json.Unmarshal(r.Body, &v); err != nil {
					b.Fatal(err)
				}
				out, err := json.Marshal(v)
				if err != nil {
					b.Fatal(err)
				}
				sha256.Sum256(out)
			}
		})
		b.Run(name+"/sha256-alone", func(b *testing.B) {
			b.SetBytes(int64(len(r.Body)))
			for b.Loop() {
				sha256.Sum256(r.Body)
			}
		})
	}
}

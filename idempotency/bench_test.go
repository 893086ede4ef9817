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

// conversation is a chat request of about size bytes as an SDK sends it: members in the order of its structs, answers of
// a few sentences, some characters outside ASCII, some escapes, a tool.
func conversation(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5","messages":[{"role":"system","content":"You are a billing assistant. Answer from the documents given."}`)
	const tail = `],"temperature":0.20,"max_completion_tokens":1000,"seed":42,"tools":[{"type":"function","function":{"name":"lookup_invoice","description":"Look up an invoice by its number","parameters":{"type":"object","properties":{"id":{"type":"integer"},"verbose":{"type":"boolean"}},"required":["id"],"additionalProperties":false}}}],"tool_choice":"auto","metadata":{"trace":"t-1"}}`
	for i := 0; b.Len() < size-len(tail)-600; i++ {
		fmt.Fprintf(&b, `,{"role":"user","content":"Question %d: what does invoice %d of café Zoë say about the late fee clause?\nPlease quote the line, then explain it in one sentence for a reader who has not seen the document before."}`, i, 1000+i)
		fmt.Fprintf(&b, `,{"role":"assistant","content":"It says: \"A fee of 2.5 %% is due after 30 days\" (line %d). The customer pays a little more for each month of delay, counted from the day on which the invoice was due and not from the day on which it was sent. Days on which the office is closed count as well. If the customer has paid a part, the fee is taken of the rest only. The clause says nothing about what happens when the customer disputes the invoice."}`, 40+i)
	}
	b.WriteString(tail)
	return b.Bytes()
}

// schemas is a request of about size bytes that is nearly all structure: tool definitions.
func schemas(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5","messages":[{"role":"user","content":"Book a table."}],"tools":[`)
	for i := 0; b.Len() < size-250; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Does thing %d","parameters":{"type":"object","properties":{"id":{"type":"integer"},"verbose":{"type":"boolean"}},"required":["id"]}}}`, i, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// BenchmarkKey prints the key of an 8 KB body beside the same by jsontext and by decoding and encoding.
func BenchmarkKey(b *testing.B) {
	k, err := idempotency.New(idempotency.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"chat-1KB", conversation(1 << 10)}, {"chat-8KB", conversation(8 << 10)}, {"chat-64KB", conversation(64 << 10)}, {"tools-8KB", schemas(8 << 10)},
	} {
		name := c.name
		r := &idempotency.Request{Env: "production", Tenant: "main", Workflow: "chat", Method: "POST", Path: "/v1/chat/completions", Body: c.body}
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

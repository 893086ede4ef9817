package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzParse: what is taken for a message has one meaning, and changes its id only.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2]},"_meta":{"progressToken":"t"}}}`,
		`{"id":"a\u0041","result":{}}`, `{"id":null,"error":{"code":1,"message":"m"}}`, `{"method":"x"}`, ` {"method" : "x" , "id" : -1.5e3 } `,
		`{"method":"x","method":"y"}`, `{"Method":"x","id":1}`, `[{"method":"x"}]`, `{"id":1,"result":"\ud800"}`, "{\"method\":\"x\"}\n{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parse(raw, 64)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("no JSON: %q", raw)
		}
		kinds := 0
		for _, is := range []bool{m.isRequest(), m.isNotification(), m.isResponse()} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Fatalf("%d kinds of message: %q", kinds, raw)
		}
		if m.params != nil && !bytes.Equal(raw[m.paramsAt:m.paramsAt+len(m.params)], m.params) {
			t.Fatalf("params are elsewhere: %q", raw)
		}
		if m.id == nil {
			return
		}
		other, err := parse(m.withID([]byte("77")), 64)
		if err != nil || string(other.id) != "77" || other.method != m.method || !bytes.Equal(other.params, m.params) || !bytes.Equal(other.result, m.result) {
			t.Fatalf("another message under another id: %q, %v", raw, err)
		}
		if !bytes.Equal(other.withID(m.id), raw) {
			t.Fatalf("not what it was: %q", raw)
		}
		if line := oneLine(raw); bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
			t.Fatalf("no line: %q", line)
		}
	})
}

// FuzzCall: what a call is of is read as encoding/json reads it, or not at all.
func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"name":"x","arguments":{"a":1}}`))
	f.Add([]byte(`{"name":"x","name":"y"}`))
	f.Add([]byte(`{"arguments":null,"name":"\u0078"}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		m, err := parse(append(append([]byte(`{"id":1,"method":"tools/call","params":`), params...), '}'), 64)
		if err != nil || m.params == nil {
			return
		}
		name, args, err := callParams(m)
		if err != nil {
			return
		}
		var p map[string]json.RawMessage
		if err := json.Unmarshal(m.params, &p); err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(p["name"], &want); err != nil || want != name {
			t.Fatalf("%q is called, not %q", want, name)
		}
		if !bytes.Equal(args, p["arguments"]) {
			t.Fatalf("arguments %q, not %q", args, p["arguments"])
		}
	})
}

// FuzzLines: no line is longer than the bound, and what is too long leaves its neighbours alone.
func FuzzLines(f *testing.F) {
	f.Add("one\ntwo\r\n\nthree", 4)
	f.Add(strings.Repeat("x", 200_000)+"\nshort\n", 100)
	f.Fuzz(func(t *testing.T, text string, max int) {
		max = 1 + int(uint(max)%1000)
		in, left := newLines(strings.NewReader(text), int64(max)), strings.Split(text, "\n")
		for _, want := range left {
			want = strings.TrimSuffix(want, "\r")
			if want == "" {
				continue
			}
			got, err := in.next()
			var big *oversized
			switch {
			case errors.As(err, &big):
				if len(want)+1 < max || !strings.HasPrefix(want, string(big.head[:min(len(big.head), len(want))])) {
					t.Fatalf("%d bytes are too large for %d", len(want), max)
				}
			case err != nil:
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			case string(got) != want:
				t.Fatalf("%.50q, want %.50q", got, want)
			}
		}
	})
}

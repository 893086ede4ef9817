package jsonarray

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/sse"
)

type element struct {
	Data       string
	Start, End int64
}

// collect scans b in pieces that end at the cuts, each in a buffer that is used again.
func collect(s *Scanner, b []byte, cuts ...int) (all []element, err error) {
	from := 0
	for _, to := range append(slices.Clone(cuts), len(b)) {
		piece := slices.Clone(b[from:to])
		err = s.Feed(piece, func(data []byte, start, end int64) error {
			all = append(all, element{string(data), start, end})
			return nil
		})
		clear(piece)
		from = to
	}
	return all, err
}

func everyByte(b []byte) (cuts []int) {
	for i := 1; i < len(b); i++ {
		cuts = append(cuts, i)
	}
	return cuts
}

func TestScanner(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
		closed   bool
	}{
		{"Gemini's", "[{\n  \"a\": [1, {}]\n}\n,\r\n{\n  \"b\": 2\n}\n]\n", []string{"{\n  \"a\": [1, {}]\n}", "{\n  \"b\": 2\n}"}, true},
		{"brackets in strings", `[{"t":"]}[{,"},{"t":"\"]\\"}]`, []string{`{"t":"]}[{,"}`, `{"t":"\"]\\"}`}, true},
		{"other elements", `[1, -2.5e3,true , null,"a\"]",[2,[]],{}]`, []string{"1", "-2.5e3", "true", "null", `"a\"]"`, "[2,[]]", "{}"}, true},
		{"escape before a quote", `["\\","x\\\"",2]`, []string{`"\\"`, `"x\\\""`, "2"}, true},
		{"empty", " [ ] ", nil, true},
		{"cut in an element", `[{"a":1},{"b":"x`, []string{`{"a":1}`}, false},
		{"cut before the bracket", `[{"a":1}`, []string{`{"a":1}`}, false},
		{"cut after an escape", `[{"a":"\`, nil, false},
		{"an object instead", `{"error":{"code":503}}`, []string{`{"error":{"code":503}}`}, false},
		{"no comma", `[{"a":1}{"b":2}]`, []string{`{"a":1}`, `{"b":2}`}, true},
		{"an error after the end", `[{"a":1}]{"error":{}}`, []string{`{"a":1}`, `{"error":{}}`}, true},
		{"nothing", "", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Scanner{}
			whole, err := collect(s, []byte(test.in))
			var got []string
			for _, e := range whole {
				got = append(got, e.Data)
				if !strings.HasSuffix(test.in[e.Start:e.End], e.Data) {
					t.Errorf("%q is not at [%d,%d)", e.Data, e.Start, e.End)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil || s.Closed() != test.closed {
				t.Errorf("closed %v, %v (-want +got):\n%s", s.Closed(), err, diff)
			}
			cut := &Scanner{}
			bytewise, err := collect(cut, []byte(test.in), everyByte([]byte(test.in))...)
			if diff := cmp.Diff(whole, bytewise); diff != "" || err != nil || cut.Bracket() != s.Bracket() {
				t.Errorf("single bytes (-whole +cut):\n%s%v", diff, err)
			}
		})
	}
}

func TestBound(t *testing.T) {
	for _, in := range []string{`[{"a":1},{"a":"` + strings.Repeat("x", 100) + `"}]`, `[{"a":1},{"a":"` + strings.Repeat("x", 100)} {
		for _, cuts := range [][]int{nil, everyByte([]byte(in))} {
			all, err := collect(&Scanner{Max: 64}, []byte(in), cuts...)
			if !errors.Is(err, sse.ErrTooLarge) || len(all) != 1 {
				t.Errorf("%d elements, %v", len(all), err)
			}
		}
	}
	spaces := strings.Repeat(" ", 1000) + `[{"a":1}` + strings.Repeat("\n", 1000) + "]"
	if all, err := collect(&Scanner{Max: 64}, []byte(spaces)); err != nil || len(all) != 1 {
		t.Errorf("white space counts to no element: %v %v", all, err)
	}
}

// Nothing is quadratic in the chunk's size.
func TestHostile(t *testing.T) {
	const n = 4 << 20
	for _, in := range []string{
		`[{"a":"` + strings.Repeat(`\n`, n) + `"}]`, `[{"a":"` + strings.Repeat(`\"`, n), strings.Repeat("[", n), "[" + strings.Repeat("0,", n),
	} {
		s := &Scanner{}
		if err := s.Feed([]byte(in), func([]byte, int64, int64) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`[{"a":1},{"b":"]"}]`, `[1,"x\"",[[]],null]`, `{"error":{}}`, "[\r\n{}\r\n,", `[{"a":"\\\"`, `]]}}[1 2]`,
	} {
		f.Add([]byte(seed), uint16(0x2468))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint16) {
		whole, err := collect(&Scanner{}, b)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		for _, e := range whole {
			if e.Start != at || e.End <= e.Start || !bytes.HasSuffix(b[:e.End], []byte(e.Data)) {
				t.Fatalf("%q at [%d,%d) after %d", e.Data, e.Start, e.End, at)
			}
			at = e.End
		}
		var cuts []int
		for i := 0; i < len(b); i += 1 + int(seed)%7 {
			seed = seed>>1 | seed<<15
			cuts = append(cuts, i)
		}
		cut, err := collect(&Scanner{}, b, cuts...)
		if diff := cmp.Diff(whole, cut); diff != "" || err != nil {
			t.Fatalf("(-whole +cut):\n%s%v", diff, err)
		}
		var want []json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		if len(whole) != len(want) {
			t.Fatalf("%d elements, want %d", len(whole), len(want))
		}
		for i, e := range whole {
			if e.Data != string(want[i]) {
				t.Fatalf("element %d is %q, want %q", i, e.Data, want[i])
			}
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	doc := []byte("[" + strings.Repeat("{\n  \"candidates\": [\n    {\n      \"content\": {\n        \"parts\": [\n          {\n            \"text\": \"There are some words\"\n          }\n        ]\n      }\n    }\n  ]\n}\n,\r\n", 3000) + "{}]")
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		s, n := Scanner{}, 0
		for i := 0; i < len(doc); i += 32 << 10 {
			_ = s.Feed(doc[i:min(i+32<<10, len(doc))], func([]byte, int64, int64) error { n++; return nil })
		}
		if n != 3001 {
			b.Fatal(n)
		}
	}
}

package sse

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// naive is the standard's algorithm over the whole stream, a line at a time.
func naive(stream string) (all []string) {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	data, name := "", ""
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != "" {
				all = append(all, name+"|"+strings.TrimSuffix(data, "\n"))
			}
			data, name = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data += value + "\n"
		case "event":
			name = value
		}
	}
	return all
}

func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"data: 1\n\n", "\xEF\xBB\xBFevent: a\r\ndata: b\r\ndata: c\r\n\r\n", "data: 1\r\rdata: 2\r\r\n\n", ": c\n\nid: 1\nretry: 2\n\ndata",
		"data:\n\ndata\n\nevent\ndata: x\n\r", "{\"error\":{}}\n\ndata: [DONE]",
	} {
		f.Add([]byte(seed), uint16(0x1357))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint16) {
		whole, err := collect(&Parser{}, b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(naive(string(b)), data(whole)); diff != "" {
			t.Fatalf("(-standard +parser):\n%s", diff)
		}
		at := int64(0)
		for _, ev := range whole {
			if ev.Start < at || ev.End <= ev.Start || ev.End > int64(len(b)) {
				t.Fatalf("event [%d,%d) after %d", ev.Start, ev.End, at)
			}
			at = ev.End
		}
		var cuts []int
		for i := 0; i < len(b); i += 1 + int(seed)%7 {
			seed = seed>>1 | seed<<15
			cuts = append(cuts, i)
		}
		cut, err := collect(&Parser{}, b, cuts...)
		if diff := cmp.Diff(whole, cut); diff != "" || err != nil {
			t.Fatalf("(-whole +cut):\n%s%v", diff, err)
		}
	})
}

package sse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// got is an event with copies of its slices.
type got struct {
	Name, Data string
	Start, End int64
	CRLF       bool
}

// collect parses b in pieces that end at the offsets, as if each came in a buffer that is used again.
func collect(p *Parser, b []byte, cuts ...int) (events []got, err error) {
	fn := func(ev Event) error {
		events = append(events, got{string(ev.Name), string(ev.Data), ev.Start, ev.End, ev.CRLF})
		return nil
	}
	from := 0
	for _, to := range append(slices.Clone(cuts), len(b)) {
		piece := slices.Clone(b[from:to])
		err = p.Feed(piece, fn)
		for i := range piece {
			piece[i] = 'X' // a view that outlives the call shows
		}
		from = to
	}
	return events, errors.Join(err, p.Close(fn))
}

func everyByte(b []byte) (cuts []int) {
	for i := 1; i < len(b); i++ {
		cuts = append(cuts, i)
	}
	return cuts
}

func data(events []got) (all []string) {
	for _, ev := range events {
		all = append(all, ev.Name+"|"+ev.Data)
	}
	return all
}

func TestParser(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"the standard's first example", "data: YHOO\ndata: +2\ndata: 10\n\n", []string{"|YHOO\n+2\n10"}},
		{"the standard's second", ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
			[]string{"|first event", "|second event", "| third event"}},
		{"the standard's third", "data\n\ndata\ndata\n\ndata:", []string{"|", "|\n"}},
		{"the standard's fourth", "data:test\n\ndata: test\n\n", []string{"|test", "|test"}},
		{"names", "event: add\ndata: 1\n\nevent:remove\ndata: 2\n\nevent\ndata: 3\n\n", []string{"add|1", "remove|2", "|3"}},
		{"the last name counts", "event: a\nevent: b\ndata: 1\n\n", []string{"b|1"}},
		{"a name without data dispatches nothing and is forgotten", "event: a\n\ndata: 1\n\n", []string{"|1"}},
		{"unterminated", "data: 1\n\ndata: 2\n", []string{"|1"}},
		{"unterminated line", "data: 1\n\ndata: 2", []string{"|1"}},
		{"CRLF", "data: 1\r\n\r\ndata: 2\r\n\r\n", []string{"|1", "|2"}},
		{"lone CR", "data: 1\r\rdata: 2\r\r", []string{"|1", "|2"}},
		{"mixed", "data: 1\r\n\ndata: 2\n\r\ndata: 3\r\n\rdata: 4\n\r", []string{"|1", "|2", "|3", "|4"}},
		{"CR then CR LF", "data: 1\r\r\ndata: 2\n\n", []string{"|1", "|2"}},
		{"mark", "\xEF\xBB\xBFdata: 1\n\n", []string{"|1"}},
		{"only one mark", "\xEF\xBB\xBF\xEF\xBB\xBFdata: 1\n\ndata: 2\n\n", []string{"|2"}},
		{"half a mark", "\xEF\xBBdata: 1\n\ndata: 2\n\n", []string{"|2"}},
		{"comment inside", "data: 1\n: c\ndata: 2\n\n", []string{"|1\n2"}},
		{"retry alone", "retry: 100\n\n", nil},
		{"unknown and wrongly spelt fields", "Data: 0\n data: 0\ndata : 0\nfoo: 0\ndata: 1\n\n", []string{"|1"}},
		{"a colon in the value", "data: a: b\n\n", []string{"|a: b"}},
		{"a tab is no space", "data:\t1\n\n", []string{"|\t1"}},
		{"NUL and invalid UTF-8", "data: \x00\xff\n\n", []string{"|\x00\xff"}},
		{"nothing", "", nil},
		{"blank lines", "\n\n\r\n\r\r", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole, err := collect(&Parser{}, []byte(test.in))
			if diff := cmp.Diff(test.want, data(whole)); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
			bytewise, err := collect(&Parser{}, []byte(test.in), everyByte([]byte(test.in))...)
			if diff := cmp.Diff(whole, bytewise); diff != "" || err != nil {
				t.Errorf("single bytes (-whole +cut):\n%s%v", diff, err)
			}
		})
	}
}

// BR-048: one stream in every framing and any cut is the same five events, each handed out with its last byte.
func TestBR048(t *testing.T) {
	texts := []string{"你好", "👋", "fin", `{"a":1}`, "end"}
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		for _, colon := range []string{": ", ":"} {
			for _, before := range []string{"", "\xEF\xBB\xBF"} {
				for _, between := range []string{"", ": ping" + eol + eol, "id: 7" + eol + "retry: 10" + eol} {
					stream, ends := before, []int(nil)
					for _, text := range texts {
						stream += between + "event: x" + eol + "data" + colon + text + eol + eol
						ends = append(ends, len(stream))
					}
					b := []byte(stream + "data: never closed" + eol)
					t.Run(fmt.Sprintf("%q", between+eol+colon+before), func(t *testing.T) {
						rapid.Check(t, func(t *rapid.T) {
							cuts := rapid.SliceOfN(rapid.IntRange(0, len(b)), 0, 30).Draw(t, "cuts")
							slices.Sort(cuts)
							sameTexts(t, b, cuts, texts)
						})
						sameTexts(t, b, everyByte(b), texts)
						promptly(t, b, ends)
					})
				}
			}
		}
	}
}

func sameTexts(t rapid.TB, b []byte, cuts []int, want []string) {
	events, err := collect(&Parser{}, b, cuts...)
	if err != nil || len(events) != len(want) {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, ev := range events {
		if ev.Data != want[i] {
			t.Fatalf("event %d is %q", i, ev.Data)
		}
	}
}

// promptly checks that each event comes with its last byte: of CR LF with the LF, of a lone CR with the CR.
func promptly(t *testing.T, b []byte, ends []int) {
	t.Helper()
	p, n := &Parser{}, 0
	for i := range b {
		_ = p.Feed(b[i:i+1], func(Event) error { n++; return nil })
		if want, found := slices.BinarySearch(ends, i+1); n != want && !(found && n == want+1) {
			t.Fatalf("%d events after byte %d of %v", n, i+1, ends)
		} else if found && n != want+1 {
			t.Fatalf("event %d did not come with its last byte", want)
		}
	}
}

func TestOffsets(t *testing.T) {
	in := ": c\n\n: d\ndata: 1\n\n\nevent: e\r\ndata: 2\r\n\r\nretry: 1\n\ndata: 3\r\r\ndata: 4\n\n: e\n\n\ntail"
	p := &Parser{}
	events, err := collect(p, []byte(in))
	if err != nil || len(events) != 4 {
		t.Fatal(events, err)
	}
	want := []string{": d\ndata: 1\n\n", "event: e\r\ndata: 2\r\n\r\n", "data: 3\r\r", "\ndata: 4\n\n"}
	for i, ev := range events {
		if got := in[ev.Start:ev.End]; got != want[i] {
			t.Errorf("event %d is %q, want %q", i, got, want[i])
		}
	}
	if in[p.Break():] != "tail" || !events[1].CRLF || events[0].CRLF || events[2].CRLF {
		t.Errorf("break at %d, events %+v", p.Break(), events)
	}
	for _, in := range []string{"data: 1\r\n\r\n: c\r\n\r\n", "data: 1\r\r: c\r\r", ": c\n\n\n", "\r\n", "data: 1\n\n\r"} {
		p := &Parser{}
		if _, err := collect(p, []byte(in), everyByte([]byte(in))...); err != nil || p.Break() != int64(len(in)) {
			t.Errorf("%q breaks at %d", in, p.Break())
		}
	}
}

func TestZeroCopy(t *testing.T) {
	in := []byte("event: a\ndata: whole\n\n")
	err := (&Parser{}).Feed(in, func(ev Event) error {
		if &ev.Data[0] != &in[bytes.Index(in, []byte("whole"))] {
			t.Error("data was copied")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoAllocation(t *testing.T) {
	stream := chunks(50)
	p, fn := &Parser{}, func(Event) error { return nil }
	feed := func() {
		for i := 0; i < len(stream); i += 1000 {
			_ = p.Feed(stream[i:min(i+1000, len(stream))], fn)
		}
	}
	feed() // grows the scratch
	if n := testing.AllocsPerRun(20, feed); n > 0 {
		t.Errorf("%v allocations for 50 events", n)
	}
}

func TestBound(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, in := range map[string]string{
		"line":            "data: " + long + "\n\n",
		"unfinished line": "data: " + long,
		"lines":           strings.Repeat("data: xxxxxxxx\n", 10) + "\n",
		"name":            "event: " + long + "\ndata: 1\n\n",
		"comment":         ":" + long,
		"stray":           long,
		"no line end":     strings.Repeat("\x00", 200),
	} {
		for _, cuts := range [][]int{nil, everyByte([]byte(in))} {
			p := &Parser{Max: 64}
			events, err := collect(p, append([]byte("data: ok\n\n"), in...), cuts...)
			if !errors.Is(err, ErrTooLarge) || len(events) != 1 {
				t.Errorf("%s: %d events, %v", name, len(events), err)
			}
			if err := p.Feed([]byte("data: 1\n\n"), nil); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: parsing went on: %v", name, err)
			}
		}
	}
	endless := strings.Repeat(": keep-alive\n\n", 1000) + strings.Repeat(": c\n", 1000) + "data: 1\n\n"
	if events, err := collect(&Parser{Max: 64}, []byte(endless)); err != nil || len(events) != 1 {
		t.Errorf("keep-alives count to no event: %v %v", events, err)
	}
}

func TestStop(t *testing.T) {
	stop := errors.New("stop")
	p, n := &Parser{}, 0
	fn := func(Event) error { n++; return stop }
	if err := p.Feed([]byte("data: 1\n\ndata: 2\n\n"), fn); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d events, %v", n, err)
	}
	if err := p.Close(fn); !errors.Is(err, stop) {
		t.Errorf("Close: %v", err)
	}
}

func TestRestAndStray(t *testing.T) {
	var stray []string
	p := &Parser{Stray: func(line []byte) { stray = append(stray, string(line)) }}
	in := []byte("data: 1\n\n{\n  \"error\": {}\n}\nevent: error\ndata: half")
	if _, err := collect(p, in, everyByte(in)...); err != nil {
		t.Fatal(err)
	}
	ev, ok := p.Rest()
	if !ok || string(ev.Name) != "error" || string(ev.Data) != "half" || ev.Start != 9 || ev.End != int64(len(in)) {
		t.Errorf("rest %+v %v", ev, ok)
	}
	if diff := cmp.Diff([]string{"{", `  "error": {}`, "}"}, stray); diff != "" {
		t.Error(diff)
	}
}

package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	for _, c := range []struct {
		name   string
		events string
		counts string
		says   []string
		hides  []string
	}{
		{
			name: "leaves are counted, not their parents",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"output","Package":"p","Test":"A/x","Output":"a log line\n"}
{"Action":"pass","Package":"p","Test":"A/x"}
{"Action":"run","Package":"p","Test":"A/y"}
{"Action":"skip","Package":"p","Test":"A/y"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Elapsed":1.5}`,
			counts: "1 0 1", says: []string{"ok    p", "1.5s"}, hides: []string{"a log line"},
		},
		{
			name: "a failure is shown in full, once",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"=== RUN   A\n"}
{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:7: wrong\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}`,
			counts: "0 1 0", says: []string{"a_test.go:7: wrong", "FAIL  p"}, hides: []string{"=== RUN"},
		},
		{
			name: "a package that does not build is a failure",
			events: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"p/a.go:3: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			counts: "0 1 0", says: []string{"undefined: x", "build failed"},
		},
		{
			name:   "what the go command says itself is kept",
			events: "go: cannot find main module",
			counts: "0 0 0", says: []string{"cannot find main module"},
		},
		{
			name:   "a package without tests is passed over",
			events: `{"Action":"skip","Package":"p"}`,
			counts: "0 0 0", hides: []string{"p"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			tally := newTally(&out)
			if err := tally.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(tally.passed, tally.failed, tally.skipped); got != c.counts {
				t.Errorf("counted %s, want %s", got, c.counts)
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("output lacks %q:\n%s", s, out.String())
				}
			}
			for _, s := range c.hides {
				if strings.Contains(out.String(), s) {
					t.Errorf("output has %q:\n%s", s, out.String())
				}
			}
		})
	}
}

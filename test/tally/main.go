// Command tally reads `go test -json`, prints a line per package with the output of what failed, and counts tests.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json PACKAGE… | tally FILE")
		os.Exit(2)
	}
	t := newTally(os.Stdout)
	err := t.read(os.Stdin)
	if err == nil {
		err = os.WriteFile(os.Args[1], fmt.Appendf(nil, "%d %d %d\n", t.passed, t.failed, t.skipped), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// event is a line of `go test -json` (go doc test2json); the build's lines have an ImportPath instead of a Package.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

type test struct{ pkg, name string }

// tally counts the leaves of the tree of tests, so that a test with subtests is not counted beside them.
type tally struct {
	out                     io.Writer
	output                  map[test][]string
	parent                  map[test]bool
	faults                  map[string]int // failed tests by package
	passed, failed, skipped int
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, output: map[test][]string{}, parent: map[test]bool{}, faults: map[string]int{}}
}

func (t *tally) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(t.out, lines.Text()) // what the go command says itself
			continue
		}
		t.add(e)
	}
	return lines.Err()
}

func (t *tally) add(e event) {
	at := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "output":
		t.output[at] = append(t.output[at], e.Output)
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			t.parent[test{e.Package, e.Test[:i]}] = true
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.packageEnds(e)
		} else {
			t.testEnds(e, at)
		}
		delete(t.output, at)
	}
}

func (t *tally) testEnds(e event, at test) {
	if e.Action == "fail" {
		t.print(at)
		t.faults[e.Package]++
	}
	if t.parent[at] {
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
	case "skip":
		t.skipped++
	}
}

func (t *tally) packageEnds(e event) {
	word := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "none"}[e.Action]
	if e.Action == "fail" {
		t.print(test{e.Package, ""})
		if t.faults[e.Package] == 0 { // it did not build, or died outside of every test
			t.failed++
		}
	}
	if e.Action != "skip" {
		fmt.Fprintf(t.out, "%s  %-70s %6.1fs\n", word, e.Package, e.Elapsed)
	}
}

// print writes what a test said, without the marks of its running.
func (t *tally) print(at test) {
	for _, line := range t.output[at] {
		if !strings.HasPrefix(line, "=== ") && line != "FAIL\n" {
			fmt.Fprint(t.out, line)
		}
	}
}

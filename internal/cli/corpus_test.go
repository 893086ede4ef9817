package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// The corpus's copies, and the least that is in them: a test that reads nothing fails.
const (
	pairsIndex   = "../../idempotency/testdata/requests/index.json"
	streamsIndex = "../../internal/provider/testdata/streams/index.json"
	signalsFile  = "../../signal/testdata/signals.jsonl"
	atLeast      = 50
)

// printed runs a command and returns the objects that it prints, one a line.
func printed(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	var out, report bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&report)
	root.SetArgs(args)
	if err := root.Execute(); err != nil || report.Len() > 0 {
		t.Fatalf("%v: %v\n%s", args, err, report.String())
	}
	return objects(t, out.Bytes())
}

func objects(t *testing.T, lines []byte) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range bytes.Lines(lines) {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		list = append(list, v)
	}
	if len(list) < atLeast {
		t.Fatalf("only %d lines", len(list))
	}
	return list
}

func readJSON(t *testing.T, file string, to any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
}

// compare checks got against the fields of want that bear its names, but for debatable ones.
func compare(t *testing.T, name string, got, want map[string]any, debatable any) {
	t.Helper()
	var leave []any
	if list, ok := debatable.([]any); ok {
		leave = list
	}
	compared := 0
	for field, w := range want {
		g, has := got[field]
		if !has || slices.Contains(leave, any(field)) {
			continue
		}
		compared++
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %s is %v, want %v", name, field, g, w)
		}
	}
	if compared < 3 {
		t.Errorf("%s: only %d fields compared", name, compared)
	}
}

func TestKeyPairsOfTheCorpus(t *testing.T) {
	var index struct{ Pairs []map[string]any }
	readJSON(t, pairsIndex, &index)
	got := printed(t, "key", "--pairs", pairsIndex)
	if len(got) != len(index.Pairs) {
		t.Fatalf("%d lines for %d pairs", len(got), len(index.Pairs))
	}
	conflicts := 0
	for i, want := range index.Pairs {
		if got[i]["id"] != want["id"] {
			t.Fatalf("line %d is %v, want %v", i, got[i]["id"], want["id"])
		}
		if want["debatable"] != true && got[i]["same"] != (want["must"] == "same") {
			t.Errorf("%v: same is %v, it must be %v", want["id"], got[i]["same"], want["must"])
		}
		if got[i]["a"] == got[i]["b"] && got[i]["same"] != true {
			conflicts++
			if got[i]["conflict"] != true {
				t.Errorf("%v has one key, is not the same, and is no conflict", want["id"])
			}
		}
	}
	if conflicts == 0 {
		t.Error("no caller's key is used for two requests")
	}
}

func TestExplainStreamsOfTheCorpus(t *testing.T) {
	var index []map[string]any
	readJSON(t, streamsIndex, &index)
	got := printed(t, "explain", "--streams", streamsIndex)
	if len(got) != len(index) {
		t.Fatalf("%d lines for %d streams", len(got), len(index))
	}
	for i, want := range index {
		name := want["file"].(string)
		if got[i]["file"] != name {
			t.Fatalf("line %d is %v, want %v", i, got[i]["file"], name)
		}
		if want["format"] == "sse" || want["format"] == "json_array" {
			compare(t, name, got[i], want, want["debatable"])
		} else if got[i]["unsupported"] != want["format"] {
			t.Errorf("%s: %v, want it unsupported", name, got[i])
		}
	}
}

func TestExplainSignalsOfTheCorpus(t *testing.T) {
	b, err := os.ReadFile(signalsFile)
	if err != nil {
		t.Fatal(err)
	}
	cases := objects(t, b)
	got := printed(t, "explain", "--signals", signalsFile)
	if len(got) != len(cases) {
		t.Fatalf("%d lines for %d cases", len(got), len(cases))
	}
	for i, c := range cases {
		name := c["id"].(string)
		if got[i]["id"] != name {
			t.Fatalf("line %d is %v, want %v", i, got[i]["id"], name)
		}
		compare(t, name, got[i]["signal"].(map[string]any), c["expected"].(map[string]any), c["debatable"])
	}
}

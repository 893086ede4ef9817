package embed

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTokens holds the tokenizers to what Hugging Face's own (tokenizers.js 0.2.0) make of the same texts. What it has as unknown is left out.
func TestTokens(t *testing.T) {
	f, err := os.Open("testdata/tokens.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unknown := map[string]int{"wordpiece": 1, "unigram": 3}
	byName := map[string]*tokenizer{}
	for name := range unknown {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if byName[name], err = parseTokenizer(text); err != nil {
			t.Fatal(err)
		}
	}
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var c struct {
			Tokenizer, Text string
			IDs             []int
		}
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(c.IDs, func(id int) bool { return id == unknown[c.Tokenizer] })
		got := byName[c.Tokenizer].encode(c.Text, 100)
		if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
			t.Errorf("%s of %q: %s", c.Tokenizer, c.Text, d)
		}
	}
	if lines < 30 {
		t.Errorf("only %d texts", lines)
	}
}

// entryOf is a tensor for write.
type entryOf struct {
	dtype string
	shape []int
	data  any
}

// write makes a file of the safetensors format.
func write(t testing.TB, path string, entries map[string]entryOf) {
	t.Helper()
	header, body := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, new(bytes.Buffer)
	for name, e := range entries {
		from := body.Len()
		if err := binary.Write(body, binary.LittleEndian, e.data); err != nil {
			t.Fatal(err)
		}
		header[name] = map[string]any{"dtype": e.dtype, "shape": e.shape, "data_offsets": []int{from, body.Len()}}
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	if err := os.WriteFile(path, append(append(file, head...), body.Bytes()...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// folder makes a model's folder with a vocabulary of testdata and these tensors.
func folder(t testing.TB, vocabulary string, entries map[string]entryOf) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", vocabulary+".json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tokenizer.json": text, "config.json": []byte(`{"model_type":"model2vec","normalize":true}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "model.safetensors"), entries)
	return dir
}

const pieces = 61 // of testdata/wordpiece.json

// table is a vector of each token.
func table[T any](number func(token, dimension int) T) []T {
	var out []T
	for token := range pieces {
		for d := range 4 {
			out = append(out, number(token, d))
		}
	}
	return out
}

func value(token, d int) float32 { return float32((token*7+d*3)%11) - 5 }

func TestModel(t *testing.T) {
	shape := []int{pieces, 4}
	weights := make([]float32, pieces)
	reverse, rows := make([]int64, pieces), make([]int32, pieces)
	for i := range weights {
		weights[i], reverse[i], rows[i] = float32(i%3)+0.5, int64(pieces-1-i), int32(pieces-1-i)
	}
	full := entryOf{"F32", shape, table(value)}
	upside := entryOf{"F32", shape, table(func(i, d int) float32 { return value(pieces-1-i, d) })}
	// "the capital of zzz" has tokens 2, 6, 7.
	want := make([]float32, 4)
	weighted := make([]float32, 4)
	for _, id := range []int{2, 6, 7} {
		for d := range 4 {
			want[d] += value(id, d)
			weighted[d] += value(id, d) * weights[id]
		}
	}
	for _, c := range []struct {
		name    string
		entries map[string]entryOf
		want    []float32
	}{
		{"F32", map[string]entryOf{"embeddings": full}, want},
		{"F64", map[string]entryOf{"embeddings": {"F64", shape, table(func(i, d int) float64 { return float64(value(i, d)) })}}, want},
		{"F16", map[string]entryOf{"embeddings": {"F16", shape, table(func(i, d int) uint16 { return toHalf(value(i, d)) })}}, want},
		{"BF16", map[string]entryOf{"embeddings": {"BF16", shape, table(func(i, d int) uint16 { return uint16(math.Float32bits(value(i, d)) >> 16) })}}, want},
		{"I8", map[string]entryOf{"embeddings": {"I8", shape, table(func(i, d int) int8 { return int8(value(i, d)) })}}, want},
		{"weights", map[string]entryOf{"embeddings": full, "weights": {"F32", []int{pieces}, weights}}, weighted},
		{"mapping", map[string]entryOf{"embeddings": upside, "mapping": {"I64", []int{pieces}, reverse}}, want},
		{"mapping of I32", map[string]entryOf{"embeddings": upside, "mapping": {"I32", []int{pieces}, rows}}, want},
	} {
		m, err := OpenModel(folder(t, "wordpiece", c.entries))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := m.Embed(t.Context(), "The capital of zzz")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		unitWant, _ := unit(slices.Clone(c.want))
		for d := range got {
			if math.Abs(float64(got[d]-unitWant[d])) > 1e-6 {
				t.Errorf("%s: %v, not %v", c.name, got, unitWant)
				break
			}
		}
		if _, err := m.Embed(t.Context(), "zzz"); !errors.Is(err, ErrVector) {
			t.Errorf("%s: a text of unknown words gives %v", c.name, err)
		}
	}
}

// toHalf makes a small whole number a binary16.
func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	if x == 0 {
		return 0
	}
	return uint16(bits>>16&0x8000 | (bits>>23&0xff-112)<<10 | bits>>13&1023)
}

func TestHalf(t *testing.T) {
	for h, want := range map[uint16]float32{0x3c00: 1, 0xc000: -2, 0x3555: 0.33325195, 0x0001: 5.9604645e-08, 0x8001: -5.9604645e-08, 0x7bff: 65504, 0x0400: 6.1035156e-05} {
		if got := half(h); got != want {
			t.Errorf("%#x is %v, not %v", h, got, want)
		}
	}
	if !math.IsInf(float64(half(0x7c00)), 1) || !math.IsNaN(float64(half(0x7e00))) {
		t.Error("no infinity, or a number where there is none")
	}
}

func TestModelSpaces(t *testing.T) {
	a := map[string]entryOf{"embeddings": {"F32", []int{pieces, 4}, table(value)}}
	b := map[string]entryOf{"embeddings": {"F32", []int{pieces, 4}, table(func(i, d int) float32 { return value(i, d) + 1 })}}
	space := func(e map[string]entryOf) string {
		m, err := OpenModel(folder(t, "wordpiece", e))
		if err != nil {
			t.Fatal(err)
		}
		return m.Space()
	}
	first, again, other := space(a), space(a), space(b)
	if first != again || first == other {
		t.Errorf("one model in two folders has %q and %q, another one %q", first, again, other)
	}
}

func TestModelRefuses(t *testing.T) {
	good := entryOf{"F32", []int{pieces, 4}, table(value)}
	far := make([]int64, pieces)
	far[3] = pieces
	for name, entries := range map[string]map[string]entryOf{
		"no embeddings":    {"other": good},
		"of one row less":  {"embeddings": {"F32", []int{pieces - 1, 4}, table(value)[:(pieces-1)*4]}},
		"a list":           {"embeddings": {"F32", []int{pieces * 4}, table(value)}},
		"of no dimensions": {"embeddings": {"F32", []int{pieces, 0}, []float32{}}},
		"another shape":    {"embeddings": {"F32", []int{pieces, 5}, table(value)}},
		"a huge shape":     {"embeddings": {"F32", []int{1 << 40, 1 << 40}, table(value)}},
		"a negative shape": {"embeddings": {"F32", []int{-1, -4}, table(value)}},
		"of a type":        {"embeddings": {"F8_E4M3", []int{pieces, 4}, table(value)}},
		"few weights":      {"embeddings": good, "weights": {"F32", []int{2}, []float32{1, 2}}},
		"a far row":        {"embeddings": good, "mapping": {"I64", []int{pieces}, far}},
		"rows of floats":   {"embeddings": good, "mapping": {"F32", []int{pieces}, make([]float32, pieces)}},
	} {
		if _, err := OpenModel(folder(t, "wordpiece", entries)); !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for file, text := range map[string]string{
		"tokenizer.json":    `{"model":{"type":"BPE","vocab":{}}}`,
		"model.safetensors": "\xff\xff\xff\xff\xff\xff\xff\x7f{}",
		"config.json":       `{"model_type":"bert"}`,
	} {
		dir := folder(t, "wordpiece", map[string]entryOf{"embeddings": good})
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenModel(dir); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenModel(dir); file != "config.json" && !errors.Is(err, ErrModel) {
			t.Errorf("without %s: %v", file, err)
		}
	}
	if _, err := OpenModel(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrModel) {
		t.Errorf("no folder: %v", err)
	}
}

func FuzzTokenizer(f *testing.F) {
	for _, name := range []string{"wordpiece", "unigram"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "What is the capital of France? 首都 \xff")
	}
	f.Add(`{"model":{"type":"Unigram","vocab":[["",0],["a",-1]],"byte_fallback":true},"normalizer":{"type":"Prepend","prepend":"\u0000"}}`, "ab")
	f.Fuzz(func(t *testing.T, file, text string) {
		tok, err := parseTokenizer([]byte(file))
		if err != nil {
			return
		}
		for _, id := range tok.encode(text, 50) {
			if id < 0 || id >= tok.size() {
				t.Errorf("token %d of %d", id, tok.size())
			}
		}
	})
}

func FuzzTensors(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	write(f, path, map[string]entryOf{"embeddings": {"F32", []int{2, 2}, []float32{1, 2, 3, 4}}})
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := openTensors(path)
		if err != nil {
			return
		}
		defer file.f.Close()
		for name, tensor := range file.byName {
			if tensor.from+tensor.size > int64(len(text)) {
				t.Errorf("%s ends behind the file", name)
			}
			if _, err := tensor.floats(1); err != nil && !strings.Contains(fmt.Sprint(err), "shape") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

package canon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

func TestForm(t *testing.T) {
	for _, tc := range []struct{ name, src, want string }{
		{"order", `{"b":1,"a":{"d":2,"c":3}}`, `{"a":{"c":3,"d":2},"b":1}`},
		{"order is that of UTF-16", "{\"\ufb33\":1,\"\U0001f600\":2,\"\u20ac\":3,\"\":0}", "{\"\":0,\"\u20ac\":3,\"\U0001f600\":2,\"\ufb33\":1}"},
		{"order by characters that share a surrogate", "{\"\U0001f601\":1,\"\U0001f600\":2}", "{\"\U0001f600\":2,\"\U0001f601\":1}"},
		{"order of escaped names", `{"\u0062":1,"a":2,"\n":3,"\u001f":4,"a\"":5}`, `{"\n":3,"\u001f":4,"a":2,"a\"":5,"b":1}`},
		{"order of a name and its beginning", `{"ab":1,"a":2,"é1":1,"é":2}`, `{"a":2,"ab":1,"é":2,"é1":1}`},
		{"white space", " \t\r\n[ 1 , { \"a\" : [ ] } , { } ] \n", `[1,{"a":[]},{}]`},
		{"array order stays", `[3,1,2]`, `[3,1,2]`},
		{"escapes", `"\u0041\/\u00e9\u00E9\ud83d\ude00\"\\\b\f\n\r\t\u0000\u001F\u007f"`, "\"A/éé\U0001f600\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\""},
		{"line separators are plain", `"\u2028"`, "\"\u2028\""},
		{"composed and decomposed stay", "[\"\u00e9\",\"e\u0301\"]", "[\"\u00e9\",\"e\u0301\"]"},
		{"literals", `[true,false,null]`, `[true,false,null]`},
		{"empty", `{}`, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := canon.Append(nil, []byte(tc.src))
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestNumbersAreExact(t *testing.T) {
	for src, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0e9": "0", "0e-99999999999999999": "0",
		"1": "1", "1.0": "1", "1e0": "1", "10e-1": "1", "-1": "-1", "1000": "1000", "1e3": "1000", "1E+3": "1000", "1.000e3": "1000",
		"0.2": "0.2", "2E-1": "0.2", "19.90": "19.9", "0.000001": "0.000001", "0.0000001": "1e-7", "12.5e-7": "0.00000125",
		"9007199254740992": "9007199254740992", "9007199254740993": "9007199254740993", "9007199254740993.0": "9007199254740993",
		"100000000000000000000": "100000000000000000000", "1e20": "100000000000000000000",
		"1e21": "1e+21", "1000000000000000000000": "1e+21", "123456789012345678901234": "1.23456789012345678901234e+23",
		"0.1000000000000000055511151231257827": "0.1000000000000000055511151231257827",
		"1e400":                                "1e+400", "1e-400": "1e-400", "1e0000000000000000000000001": "10",
		"1e999999999999999999": "1e+999999999999999999",
	} {
		got, err := canon.Append(nil, []byte(src))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", src, got, err, want)
		}
		if o := number(src); o != want {
			t.Errorf("%s: the oracle says %s", src, o)
		}
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", 129) + strings.Repeat("]", 129)
	for _, tc := range []struct {
		src string
		at  int
		err error
	}{
		{``, 0, canon.ErrSyntax}, {` `, 1, canon.ErrSyntax}, {`{}}`, 2, canon.ErrSyntax}, {`1 2`, 2, canon.ErrSyntax},
		{`{"a":1,}`, 7, canon.ErrSyntax}, {`[1,]`, 3, canon.ErrSyntax}, {`[1 2]`, 3, canon.ErrSyntax}, {`{"a" 1}`, 5, canon.ErrSyntax},
		{`{a:1}`, 1, canon.ErrSyntax}, {`[`, 1, canon.ErrSyntax}, {`{"a":1`, 6, canon.ErrSyntax}, {`{"a"`, 4, canon.ErrSyntax}, {`[1`, 2, canon.ErrSyntax},
		{`01`, 0, canon.ErrSyntax}, {`1.`, 2, canon.ErrSyntax}, {`.5`, 0, canon.ErrSyntax}, {`-`, 1, canon.ErrSyntax}, {`+1`, 0, canon.ErrSyntax},
		{`1e`, 2, canon.ErrSyntax}, {`1e+`, 3, canon.ErrSyntax}, {`NaN`, 0, canon.ErrSyntax}, {`tru`, 0, canon.ErrSyntax}, {`truex`, 4, canon.ErrSyntax},
		{`"a`, 2, canon.ErrSyntax}, {"\"a\nb\"", 2, canon.ErrSyntax}, {`"\x"`, 1, canon.ErrSyntax}, {`"\`, 1, canon.ErrSyntax}, {`"\u12`, 1, canon.ErrSyntax}, {`"\u12g4"`, 1, canon.ErrSyntax},
		{"\"a\xff\"", 2, canon.ErrUTF8}, {"\"\xed\xa0\x80\"", 1, canon.ErrUTF8}, {"\"\xc0\xaf\"", 1, canon.ErrUTF8}, {"\"\xe2\x82", 1, canon.ErrUTF8},
		{`"\ud800"`, 1, canon.ErrSurrogate}, {`"\udc00\ud800"`, 1, canon.ErrSurrogate}, {`"\ud800\u0041"`, 1, canon.ErrSurrogate}, {`"x\ud800`, 2, canon.ErrSurrogate},
		{`{"a":1,"a":2}`, 12, canon.ErrDuplicate}, {`{"a":1,"b":2,"a":3}`, 18, canon.ErrDuplicate}, {`{"a":1,"\u0061":2}`, 17, canon.ErrDuplicate}, {`{"é":1,"\u00e9":2}`, 18, canon.ErrDuplicate},
		{`1e9999999999999999999`, 2, canon.ErrNumber}, {deep, 128, canon.ErrDepth}, {"\xef\xbb\xbf{}", 0, canon.ErrSyntax},
	} {
		got, err := canon.Append([]byte("kept"), []byte(tc.src))
		var at *canon.Error
		if !errors.Is(err, tc.err) || !errors.As(err, &at) || at.Offset != tc.at || string(got) != "kept" {
			t.Errorf("%.30q: %q, %v; want %v at %d", tc.src, got, err, tc.err, tc.at)
		}
	}
	if _, err := canon.Append(nil, []byte(deep[1:len(deep)-1])); err != nil {
		t.Errorf("128 levels: %v", err)
	}
}

// A short document of many unsorted levels must not cost its size times its depth.
func TestSortingIsBounded(t *testing.T) {
	src := strings.Repeat(`{"b":`, 127) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`,"a":1}`, 127)
	if _, err := canon.Append(nil, []byte(src)); !errors.Is(err, canon.ErrTangled) {
		t.Errorf("got %v", err)
	}
	src = strings.Repeat(`{"b":`, 20) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`,"a":1}`, 20)
	if _, err := canon.Append(nil, []byte(src)); err != nil {
		t.Errorf("twenty levels: %v", err)
	}
}

// Where no digit is lost to a double, ours is RFC 8785.
func TestIsRFC8785(t *testing.T) {
	files, _ := filepath.Glob("testdata/rfc8785/*.json")
	if len(files) == 0 {
		t.Fatal("no documents")
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		want := jsontext.Value(append([]byte(nil), src...))
		if err := want.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if got, err := canon.Append(nil, src); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", f, err, got, want)
		}
	}
}

func TestReuseDoesNotAllocate(t *testing.T) {
	var e canon.Encoder
	src := []byte(`{"b":[1,2.50,{"z":"\u00e9","y":null}],"a":"text"}`)
	dst := make([]byte, 0, 1024)
	n := testing.AllocsPerRun(100, func() { dst, _ = e.Append(dst[:0], src, nil) })
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLookup(t *testing.T) {
	doc, err := canon.Append(nil, []byte(`{"a":{"b":{"c":[1,"}]"]},"n":12},"s":"q\"\\","t":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a.b.c": `[1,"}]"]`, "a.n": "12", "s": `"q\"\\"`, "t": "true", "a.b": `{"c":[1,"}]"]}`,
		"x": "", "a.x": "", "t.x": "", "a.b.c.d": "",
	} {
		if got := string(canon.Lookup(doc, strings.Split(path, ".")...)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

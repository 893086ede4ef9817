package jsonview

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	doc := Value(` { "a" : 1 , "b":{"a":"x","q":"\"}]{"},"m\u006fdel":"esc", "a":2, "list":[1,"two",{"t":[3]},[]], "n":null,"z":-1.5e3 }`)
	for key, want := range map[string]string{
		"a": "2", "b": `{"a":"x","q":"\"}]{"}`, "model": `"esc"`, "n": "null", "z": "-1.5e3", "none": "",
	} {
		if got := string(doc.Get(key)); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := doc.Path("b", "a").String(); got != "x" {
		t.Errorf("b.a = %q", got)
	}
	if got := doc.Path("b", "none", "a"); got != nil {
		t.Errorf("b.none.a = %q", got)
	}
	var all []string
	for a := doc.Get("list").Array(); ; {
		v, ok := a.Next()
		if !ok {
			break
		}
		all = append(all, string(v))
	}
	if got := strings.Join(all, " "); got != `1 "two" {"t":[3]} []` {
		t.Errorf("list = %s", got)
	}
}

func TestString(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"caf\u00e9 \uD83D\ude00\u2028"`: "café 😀\u2028",
		`"\ud83d"`: "\uFFFD", `"\ud83dx"`: "\uFFFDx", `"\ude00\ud83d\ude00"`: "\uFFFD😀", `"\ud83d\u0041"`: "\uFFFDA", `""`: "",
	} {
		if got := Value(in).String(); got != want {
			t.Errorf("%s = %q, want %q", in, got, want)
		}
		if !Value(in).Is(want) {
			t.Errorf("%s is not %q", in, want)
		}
	}
	for _, in := range []string{`"\u12"`, `"\u12g4"`, `"\x"`, `"\`, `"`, `1`, ``} {
		_ = Value(in).String() // broken escapes must not panic
	}
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "17": 17, "1.9": 1, "1e3": 1000, "9007199254740993": 9007199254740993, "-1": -1, "null": -1, `"5"`: -1,
		"99999999999999999999": -1, "1e400": -1, "": -1, "1x": -1,
	} {
		if got := Value(in).Int(); got != want {
			t.Errorf("%q = %d, want %d", in, got, want)
		}
	}
}

func TestFilled(t *testing.T) {
	for in, want := range map[string]bool{
		"": false, "null": false, "false": false, "0": false, `""`: false, "[]": false, "[ ]": false, "{}": false, "{\n}": false,
		"true": true, "1": true, `"x"`: true, "[0]": true, `{"a":null}`: true,
	} {
		if got := Value(in).Filled(); got != want {
			t.Errorf("%q filled = %v", in, got)
		}
	}
}

func TestComplete(t *testing.T) {
	whole := `{"a":[1,{"b":"}\""}],"c":"x"}`
	for i := range whole {
		if Complete([]byte(whole[:i])) {
			t.Errorf("%q is whole", whole[:i])
		}
	}
	for in, want := range map[string]bool{whole: true, " " + whole + "\n": true, whole + "x": false, whole + whole: false, "": false, "\n": false} {
		if got := Complete([]byte(in)); got != want {
			t.Errorf("%q whole = %v", in, got)
		}
	}
}

// Whatever encoding/json accepts reads the same here, and nothing panics.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[true,null,"x\u00e9"],"a":{"c":-0.5e1}}`, `[{"t":"\ud83d\ude00"},[],{}]`, `{"a":"\\"}`, `{"a"`, `{"a":}`, `[1,,2]`, `"`, `{"\u0061":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := Of(b)
		walk(v, 0)
		if !json.Valid(b) {
			return
		}
		if !Complete(b) {
			t.Fatalf("%q is not whole", b)
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(b, &members) != nil {
			return
		}
		for key, want := range members {
			if strings.Contains(key, "\uFFFD") {
				continue // encoding/json replaces invalid UTF-8 in keys
			}
			got := v.Get(key)
			if string(got) != string(want) {
				t.Fatalf("%q of %q = %q, want %q", key, b, got, want)
			}
			var s string
			if json.Unmarshal(want, &s) == nil && got.IsString() && strings.ToValidUTF8(got.String(), "\uFFFD") != s &&
				!strings.Contains(s, "\uFFFD") {
				t.Fatalf("%q = %q, want %q", want, got.String(), s)
			}
			if at := got.Offset(b); string(b[at:at+len(got)]) != string(got) {
				t.Fatalf("offset %d of %q", at, got)
			}
		}
	})
}

func walk(v Value, depth int) {
	_, _, _, _ = v.Int(), v.String(), v.Filled(), v.Scalar()
	if depth > 20 {
		return
	}
	for o := v.Object(); ; {
		_, val, ok := o.Next()
		if !ok {
			break
		}
		walk(val, depth+1)
	}
	for a := v.Array(); ; {
		val, ok := a.Next()
		if !ok {
			break
		}
		walk(val, depth+1)
	}
}

// Nothing is quadratic in the input's size.
func TestHostile(t *testing.T) {
	const n = 4 << 20
	for name, in := range map[string]string{
		"open brackets":  strings.Repeat("[", n),
		"open objects":   strings.Repeat(`{"a":`, n/5),
		"backslashes":    `{"a":"` + strings.Repeat(`\`, n),
		"escaped quotes": `{"a":"` + strings.Repeat(`\"`, n/2) + `"}`,
		"commas":         "[" + strings.Repeat(",", n),
		"members":        "{" + strings.Repeat(`"a":1,`, n/6) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			v := Value(in)
			_, _ = v.Get("a"), Complete(v)
			a := v.Array()
			a.Next()
		})
	}
}

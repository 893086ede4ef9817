package provider_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider"
)

func TestMark(t *testing.T) {
	full := `{"store":true,"metadata":{` + strings.TrimSuffix(strings.Repeat(`"#":"v",`, 16), ",") + `}}`
	for i := range 16 {
		full = strings.Replace(full, "#", string(rune('a'+i)), 1)
	}
	for body, want := range map[string]string{
		`{"model":"m","store":true}`:                                    `{"model":"m","store":true,"metadata":{"holdfast":"v"}}`,
		`{"store":true,"metadata":null,"n":9007199254740993}`:           `{"store":true,"metadata":{"holdfast":"v"},"n":9007199254740993}`,
		`{"store":true,"metadata":{"a":"b"},"messages":[ {"x":1.50} ]}`: `{"store":true,"metadata":{"a":"b","holdfast":"v"},"messages":[ {"x":1.50} ]}`,
		`{"store":false}`:  "",
		`{"model":"m"}`:    "",
		`{"store":"true"}`: "",
		`{"store":true,"metadata":{"holdfast":"theirs"}}`: "",
		`{"store":true,"metadata":[1]}`:                   "",
		`{"store":true,"metadata":"x"}`:                   "",
		`{"store":true,"store":false}`:                    "",
		`{"store":true,"metadata":{},"metadata":{}}`:      "",
		full:       "",
		`not json`: "",
	} {
		got, ok := provider.Mark([]byte(body), "v")
		if ok != (want != "") || !ok && string(got) != body || ok && string(got) != want {
			t.Errorf("%s became %s, %v", body, got, ok)
		}
	}
}

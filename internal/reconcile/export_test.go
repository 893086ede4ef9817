package reconcile

import (
	"net/url"
	"strings"
	"testing"
)

// CheckAddress holds a template's address to what no value may change: its host and the number of its segments.
func CheckAddress(t *testing.T, text string, arguments []byte) {
	if !strings.HasPrefix(text, "/") {
		text = "/" + text
	}
	p, err := parseAddress(text)
	if err != nil {
		return
	}
	got, err := p.address("the-key", argumentsOf(toolProvider, arguments))
	if err != nil {
		return
	}
	var plain strings.Builder
	for _, x := range p.parts {
		plain.WriteString(x.literal)
		if x.field != "" {
			plain.WriteString("v")
		}
	}
	want, err := url.Parse("http://far.side" + plain.String())
	if err != nil {
		return
	}
	u, err := url.Parse("http://far.side" + got)
	if err != nil {
		t.Fatalf("%q and %q make no address: %v", text, arguments, err)
	}
	if u.Host != want.Host || strings.Count(u.EscapedPath(), "/") != strings.Count(want.EscapedPath(), "/") {
		t.Errorf("%q and %q make %q", text, arguments, got)
	}
}

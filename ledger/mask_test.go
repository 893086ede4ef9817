package ledger_test

import (
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

func TestMasked(t *testing.T) {
	for address, want := range map[string]string{
		"":                                 "",
		"https://shop.example/done":        "https://shop.example/done",
		"https://shop.example/done?a=1&b=": "https://shop.example/done?masked",
		"https://u:p@shop.example/#secret": "https://shop.example/",
		"https://shop.example/%zz?a=1":     "[no address]",
	} {
		if got := ledger.Masked(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

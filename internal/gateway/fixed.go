package gateway

import "github.com/holdfast-ai/holdfast/internal/provider"

// fixedAnswer is a text as an answer of the API that was called; ok is false where it has no such form.
func fixedAnswer(spec *provider.Call, text string) (body []byte, contentType string, ok bool) {
	return nil, "", false
}

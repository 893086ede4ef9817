package gateway

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/upstream"
)

// maskCredentials takes out of an error's body, before it is passed on or kept, the credentials that its request was
// sent with (interface.md, settled questions).
func maskCredentials(r *upstream.Request, body []byte) []byte {
	for _, name := range credentialHeaders {
		for _, v := range r.Header[name] {
			body = maskWord(body, v)
		}
	}
	for param := range strings.SplitSeq(r.Target.RawQuery, "&") {
		name, value, _ := strings.Cut(param, "=")
		if plain, err := url.QueryUnescape(name); err == nil && idempotency.Credential(plain) {
			body = maskWord(body, value)
		}
	}
	return body
}

// shortestSecret keeps words that occur in any text from being blotted out.
const shortestSecret = 8

// maskWord replaces a credential, whole or with the scheme taken off, by asterisks of the same length. Providers
// echo keys that they refuse, some with the middle masked; what they mask themselves is left as it is.
func maskWord(body []byte, credential string) []byte {
	if _, rest, ok := strings.Cut(credential, " "); ok {
		credential = strings.TrimSpace(rest)
	}
	if len(credential) < shortestSecret || !bytes.Contains(body, []byte(credential)) {
		return body
	}
	return bytes.ReplaceAll(body, []byte(credential), bytes.Repeat([]byte("*"), len(credential)))
}

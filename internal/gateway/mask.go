package gateway

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/redact"
	"github.com/holdfast-ai/holdfast/internal/upstream"
)

// answered is an answer without the secrets that its request was sent with: in its header, and in its body as that is read. It is
// so before anything is judged, shown, kept or logged, and alike for every client, so that a replay is what the first one had. The
// client loses nothing by it: the secret is not the client's (semantics 44).
func (t *target) answered(resp *upstream.Response) *upstream.Response {
	if resp == nil || t.hidden == nil || mutant.On("secret-in-answer") {
		return resp
	}
	t.hidden.Header(resp.Header)
	resp.Body = &clean{resp.Body, t.hidden.Reader(resp.Body)}
	return resp
}

// clean is a body without secrets.
type clean struct {
	upstream.Body
	words *redact.Reader
}

func (c *clean) Read(p []byte) (int, error) { return c.words.Read(p) }
func (c *clean) Buffered() int              { return c.words.Waiting() + c.Body.Buffered() }

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

// maskWord replaces a credential, whole or with the scheme taken off, by asterisks of the same length. Providers
// echo keys that they refuse, some with the middle masked; what they mask themselves is left as it is.
func maskWord(body []byte, credential string) []byte {
	if _, rest, ok := strings.Cut(credential, " "); ok {
		credential = strings.TrimSpace(rest)
	}
	if len(credential) < redact.Shortest || !bytes.Contains(body, []byte(credential)) {
		return body
	}
	return bytes.ReplaceAll(body, []byte(credential), bytes.Repeat([]byte("*"), len(credential)))
}

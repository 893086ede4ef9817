package gateway

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/redact"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/signal"
)

// answered is an answer without the secrets that its request was sent with: in its header, and in its body as that is read. So
// nothing shows, keeps or logs them, and what is shown and what is replayed are the same bytes. The client loses nothing by it: the
// secret is not the client's (semantics 44). What an answer means is read from what came, which asCame gives; a stream alone is
// read without secrets, since its events leave while it comes.
func (t *target) answered(resp *upstream.Response) *upstream.Response {
	if resp == nil || t.hidden == nil || mutant.On("secret-in-answer") {
		return resp
	}
	resp.Body = &clean{resp.Body, t.hidden.Reader(resp.Body), resp.Header}
	resp.Header = t.hidden.Header(resp.Header)
	return resp
}

// clean is a body without secrets.
type clean struct {
	upstream.Body
	words  *redact.Reader
	header http.Header // as it came
}

func (c *clean) Read(p []byte) (int, error) { return c.words.Read(p) }
func (c *clean) Buffered() int              { return c.words.Waiting() + c.Body.Buffered() }

// asCame is the header of an answer, and of its body that beginning which was read, as the far side said them: a secret may be a word
// that an expression looks for. It is for verdicts alone, and is shown and kept nowhere.
func asCame(resp *upstream.Response, body []byte) (http.Header, []byte) {
	if c, ok := resp.Body.(*clean); ok && !mutant.On("verdict-on-masked") {
		return c.header, c.words.Original(body)
	}
	return resp.Header, body
}

// hide is answered for an answer that is passed on unread.
func (t *target) hide(r *http.Response) {
	r.Header = t.hidden.Header(r.Header)
	r.Body = &passing{t.hidden.Reader(r.Body), r.Body, func() { r.Trailer = t.hidden.Header(r.Trailer) }}
}

// quiet is a transport whose early answers (RFC 9110, section 15.2) show no secret either: the proxy passes them on as they come.
func (t *target) quiet(through http.RoundTripper) http.RoundTripper {
	if t.hidden == nil {
		return through
	}
	return quietly{through, &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		maps.Copy(h, textproto.MIMEHeader(t.hidden.Header(http.Header(h))))
		return nil
	}}}
}

type quietly struct {
	http.RoundTripper
	trace *httptrace.ClientTrace
}

// RoundTrip puts the trace before that of whoever asks.
func (q quietly) RoundTrip(r *http.Request) (*http.Response, error) {
	return q.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), q.trace)))
}

// passing is the body of such an answer.
type passing struct {
	words *redact.Reader
	io.Closer
	over func() // the trailer is here
}

func (p *passing) Read(b []byte) (int, error) {
	n, err := p.words.Read(b)
	if err == io.EOF {
		p.over()
	}
	return n, err
}

// hide takes secrets out of what a verdict quotes of its answer.
func (v *verdict) hide(hidden *redact.Words) {
	v.kind, v.signal = hidden.Text(v.kind), hideSignal(v.signal, hidden)
}

func hideSignal(s signal.Signal, hidden *redact.Words) signal.Signal {
	s.ProviderErrorType, s.RouteKey, s.Message = hidden.Text(s.ProviderErrorType), hidden.Text(s.RouteKey), hidden.Text(s.Message)
	return s
}

// maskCredentials takes out of an error's body, before it is passed on or kept, the credentials that its request was
// sent with (interface.md, settled questions).
func (g *Guard) maskCredentials(r *upstream.Request, body []byte) []byte {
	for _, name := range g.proofs {
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

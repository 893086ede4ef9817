package reconcile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// maxRead bounds what is read of a far side's answer.
const maxRead = 1 << 20

// get reads an address of the far side.
type get struct {
	s      *Set
	conf   *policy.Reconcile
	at     place
	method string
	path   *template
	whole  bool // the template is an address of its own, not a path of the far side's
	named  bool // the last segment of its path names the operation
}

func (s *Set) newGet(r *policy.Reconcile, at place) (intent.Reconciler, error) {
	g := &get{s: s, conf: r, at: at, method: http.MethodGet}
	text := r.Get
	if method, rest, has := strings.Cut(text, " "); has {
		if method != http.MethodGet && method != http.MethodHead {
			return nil, fmt.Errorf("get: %s is not read-only", method)
		}
		g.method, text = method, rest
	}
	if _, rest, whole := strings.Cut(text, "://"); whole && !strings.HasPrefix(text, "/") {
		host, _, _ := strings.Cut(rest, "/")
		host, _, _ = strings.Cut(host, "?")
		if strings.ContainsAny(host, "{}@") {
			return nil, errors.New("get: a field may not stand in the host")
		}
		g.whole = true
	} else if at.server != "" {
		return nil, errors.New("get: an MCP server has no paths; write a whole address, or tool")
	}
	var err error
	if g.path, err = parseAddress(text); err != nil {
		return nil, err
	}
	of, err := parseTemplate(at.key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	g.named = names(g.path.resource(), of.fields())
	return g, nil
}

// names says that fields tell one operation from every other: they are its key, or all that its key is made of.
func names(fields, key []string) bool {
	if slices.Contains(fields, "key") {
		return true
	}
	return len(key) > 0 && !slices.ContainsFunc(key, func(f string) bool { return !slices.Contains(fields, f) })
}

// readEvidence is what the history keeps of a read. The address is the template: its values may be secrets.
type readEvidence struct {
	Get    string `json:"get,omitempty"`
	SQL    string `json:"sql,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Status int    `json:"status,omitempty"`
	Rows   *int   `json:"rows,omitempty"`
	ID     string `json:"id,omitempty"`
	State  string `json:"state,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

func digest(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// Check implements intent.Reconciler.
func (g *get) Check(ctx context.Context, r *ledger.Record) (intent.Finding, error) {
	e := readEvidence{Get: g.path.text}
	address, err := g.path.address(g.s.outbound(r), g.s.arguments(ctx, r))
	if err != nil {
		return cannotTell(err.Error(), e), nil
	}
	target, header, err := g.target(address, r)
	if err != nil {
		return cannotTell(err.Error(), e), nil
	}
	a, body, err := g.s.read(ctx, &upstream.Request{Method: g.method, Target: target, Header: header})
	if err != nil {
		return intent.Finding{Reason: "the far side could not be read" + unreadable(err), Evidence: encode(e)}, err
	}
	e.Status, e.Bytes, e.SHA256 = a.Status, len(body), digest(body)
	switch {
	case unread(a.Status):
		return cannotTell(fmt.Sprintf("the far side answered %d", a.Status), e), nil
	case isGone(a.Status) && !speaks(g.method, a, body):
		return cannotTell(fmt.Sprintf("the far side answered %d with neither JSON nor nothing, as a server in between does", a.Status), e), nil
	case g.method == http.MethodGet && isPage(a.Headers["content-type"], body):
		return cannotTell(fmt.Sprintf("the far side answered %d with a page, not with data", a.Status), e), nil
	}
	a.named, a.plain = g.named, a.Status == http.StatusOK
	found, reason := judge(g.conf, a)
	f := intent.Finding{Found: found, Reason: reason, Evidence: encode(e), Read: body}
	if found == intent.Happened && g.method == http.MethodGet {
		f.Answer, f.Body = answerOf(a, body)
	}
	return f, nil
}

// unread are statuses that say nothing of what was asked for, whatever an expression makes of them: those of a read that was
// refused, or not understood.
func unread(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusConflict:
		return false
	}
	return status < 200 || status > 299
}

// isGone are the statuses that say that there is nothing.
func isGone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

// speaks says that a 404 or 410 may be the far side's own word: it says nothing further, or says it as data. A proxy that knows no
// such host, and a framework that knows no such path, answer with text.
func speaks(method string, a answer, body []byte) bool {
	contentType := strings.ToLower(a.Headers["content-type"])
	switch {
	case method == http.MethodHead:
		return contentType == "" || strings.Contains(contentType, "json") || a.Headers["content-length"] == "0"
	case len(bytes.TrimSpace(body)) == 0:
		return true
	}
	return a.Fault == nil
}

// unreadable says why there is no answer, without the words of an error, which name hosts.
func unreadable(err error) string {
	var ue *upstream.Error
	switch {
	case errors.Is(err, errLarge):
		return ": " + errLarge.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ue) && ue.Timeout:
		return ": it did not answer in time"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ": its answer broke off"
	}
	return ""
}

var errLarge = errors.New("the answer is larger than 1 MiB")

// target is where the read goes, and with which credentials: those of the far side it asks, and no other.
func (g *get) target(address string, r *ledger.Record) (*url.URL, http.Header, error) {
	header := http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"identity"}}
	base, own, err := g.base(r)
	if !g.whole {
		if err != nil {
			return nil, nil, err
		}
		address = strings.TrimSuffix(base, "/") + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("%w: it makes no address", errTemplate)
	}
	if b, err := url.Parse(base); err == nil && b.Host == u.Host && b.Scheme == u.Scheme {
		for name, v := range own {
			header[name] = v
		}
	}
	return u, header, nil
}

// base is the far side of an operation, and the headers that it is called with.
func (g *get) base(r *ledger.Record) (string, http.Header, error) {
	if g.at.tool != nil {
		return g.at.tool.BaseURL, headersOf(g.at.tool.Headers), nil
	}
	p := g.s.c.Policy.Provider(r.Provider)
	if p == nil {
		return "", nil, errors.New("the operation's provider is not configured here: write a whole address")
	}
	return p.BaseURL, providerHeaders(p), nil
}

func headersOf(list []policy.Header) http.Header {
	h := http.Header{}
	for _, x := range list {
		h.Set(x.Name, x.Value.Reveal())
	}
	return h
}

func providerHeaders(p *policy.Provider) http.Header {
	h := headersOf(p.Headers)
	key := p.APIKey.Reveal()
	switch {
	case key == "":
	case p.AuthHeader != "" && !strings.EqualFold(p.AuthHeader, "Authorization"):
		h.Set(p.AuthHeader, key)
	case p.AuthHeader == "" && p.Type == policy.TypeAnthropic:
		h.Set("X-Api-Key", key)
	case p.AuthHeader == "" && p.Type == policy.TypeGemini:
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}

// read makes one request. It follows no redirect, and an answer that is larger than may be read is none.
func (s *Set) read(ctx context.Context, q *upstream.Request) (answer, []byte, error) {
	a := answer{Answer: policy.Answer{Headers: map[string]string{}}}
	resp, err := s.c.Upstream.Do(ctx, q)
	if err != nil {
		return a, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRead+1))
	switch {
	case err != nil:
		return a, nil, err
	case len(body) > maxRead:
		return a, nil, errLarge
	}
	a.Status = resp.Status
	for name, v := range resp.Header {
		if len(v) > 0 {
			a.Headers[strings.ToLower(name)] = v[0]
		}
	}
	if q.Method != http.MethodHead { // to which no answer has a document
		a.Body, a.Fault = policy.Document(body)
		a.Result = a.Body
	}
	return a, body, nil
}

// answerOf is what was read as the answer that is replayed: the far side's own word of the effect, marked as such.
func answerOf(a answer, body []byte) (*ledger.Answer, *ledger.Body) {
	contentType := a.Headers["content-type"]
	header := map[string][]string{"Holdfast-Reconciled": {"true"}}
	if contentType != "" {
		header["Content-Type"] = []string{contentType}
	}
	return &ledger.Answer{HTTPStatus: http.StatusOK, Header: header, Source: "reconciler", HasBody: true},
		&ledger.Body{ContentType: contentType, Data: body}
}

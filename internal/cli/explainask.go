package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/signal"
)

// question is what the flags of `holdfast explain` ask.
type question struct {
	config, admin string
	json          bool

	q              explain.Question
	provider       string
	headers        []string
	body, request  string
	requestHeaders []string
	phase          string
	transport      string
	sent           string
	received       int64
	remaining      time.Duration
}

// unsaid is a duration that was not given.
const unsaid = time.Duration(-1)

func (a *question) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.config, "config", "", "holdfast.yaml or policy file (default holdfast.yaml here, else the defaults)")
	f.StringVar(&a.admin, "admin", "", "ask the gateway with this admin API, by the policy that it runs; $"+adminKeyEnv+" is its credential")
	f.BoolVar(&a.json, "json", false, "print one JSON object")
	f.StringVar(&a.q.Workflow, "workflow", "", "workflow whose policy applies")
	f.StringVar(&a.q.Method, "method", "", "method of the request (default POST)")
	f.StringVar(&a.q.Path, "path", "", "path of the request, without a provider's prefix")
	f.StringVar(&a.q.Model, "model", "", "model asked for")
	f.StringVar(&a.request, "request", "", "body of the request: text, @FILE, or @- for standard input")
	f.StringArrayVar(&a.requestHeaders, "request-header", nil, "'Name: value' of the request; may be repeated")
	f.StringVar(&a.provider, "provider", "", "openai, anthropic, gemini or a name from providers (default: by the path)")
	f.IntVar(&a.q.Answer.Status, "status", 0, "HTTP status of the answer")
	f.StringArrayVar(&a.headers, "header", nil, "'Name: value' of the answer; may be repeated")
	f.StringVar(&a.body, "body", "", "body of the answer: text, @FILE, or @- for standard input")
	f.StringVar(&a.phase, "phase", "", "before_first_token or mid_stream (default before_first_token)")
	f.StringVar(&a.transport, "transport", "", "no answer came: reset, refused, timeout, eof, dns, or the error's words")
	f.StringVar(&a.sent, "sent", "", "what of the request had left: none, partial or all (default all; refused and dns: none)")
	f.Int64Var(&a.received, "received", 0, "bytes of the answer that had come")
	f.StringVar(&a.q.Tier, "tier", "", "tier that the attempt was made at (default by --provider and --model, else where the call begins)")
	f.IntVar(&a.q.Attempt, "attempt", 1, "which attempt ended so")
	f.DurationVar(&a.remaining, "remaining", unsaid, "what is left of the budget (default timeouts.total)")
	f.Lookup("remaining").DefValue = "0s" // of which help says nothing
	f.StringVar(&a.q.Effect, "effect", "", "read, generation or external (default the workflow's)")
	f.BoolVar(&a.q.Async, "async", false, "the client accepts an answer later (Prefer: respond-async)")
	f.BoolVar(&a.q.ClientLeft, "client-left", false, "no client waits any more")
	f.StringVar(&a.q.Breaker, "breaker", "", "state of the route's breaker after the attempt: open or closed (default closed)")
	f.BoolVar(&a.q.ShareUsed, "share-used", false, "the route's share of retries is used up")
	cmd.MarkFlagsMutuallyExclusive("config", "admin")
}

func (a *question) nothing() bool {
	q := &a.q
	return q.Workflow == "" && q.Path == "" && q.Model == "" && a.request == "" && q.Answer.Status == 0 &&
		a.transport == "" && a.body == "" && len(a.headers) == 0 && a.phase == "" && a.sent == ""
}

func (a *question) explain(ctx context.Context, out io.Writer, stdin io.Reader) error {
	if err := a.read(stdin); err != nil {
		return err
	}
	x, err := a.answered(ctx)
	switch {
	case errors.Is(err, explain.ErrQuestion):
		return &usageError{err}
	case err != nil:
		return err
	case a.json:
		return writeJSON(out, x)
	}
	return writeExplanation(out, x)
}

// answered asks the running gateway where one is named, else the configuration.
func (a *question) answered(ctx context.Context) (*explain.Explanation, error) {
	if a.admin != "" {
		api, err := dialAdmin(a.admin)
		if err != nil {
			return nil, err
		}
		var x explain.Explanation
		err = api.call(ctx, http.MethodPost, "/holdfast/v1/explain", nil, a.q, &x)
		if errors.Is(err, errNoSuch) {
			err = fmt.Errorf("%s explains nothing: it is no admin port, or that of an older version; name the address of `holdfast serve --admin`", api.name)
		}
		return &x, err
	}
	cfg, err := (&storeFlags{config: a.config}).load()
	if err != nil {
		return nil, err
	}
	return explain.Explain(cfg, a.q)
}

// read puts what the flags say into the question.
func (a *question) read(stdin io.Reader) (err error) {
	if a.body == "@-" && a.request == "@-" {
		return usagef("standard input is --body or --request, not both")
	}
	answer := &a.q.Answer
	answer.Provider, answer.Phase = a.provider, signal.Phase(a.phase)
	if answer.Header, err = headerLines("header", a.headers); err != nil {
		return err
	}
	if answer.Body, err = argument(a.body, stdin); err != nil {
		return err
	}
	request, err := argument(a.request, stdin)
	if err != nil {
		return err
	}
	a.q.Request = string(request)
	asked, err := headerLines("request-header", a.requestHeaders)
	if err != nil {
		return err
	}
	for name, values := range asked {
		if a.q.RequestHeaders == nil {
			a.q.RequestHeaders = map[string]string{}
		}
		a.q.RequestHeaders[name] = values[0]
	}
	if a.remaining != unsaid {
		if a.remaining < 0 {
			return usagef("--remaining is a time such as 20s, not %s", a.remaining)
		}
		ms := a.remaining.Milliseconds()
		a.q.RemainingMS = &ms
	}
	return a.noAnswer()
}

// transports are words for errors that people know by other names, with what of a request had left then.
var transports = map[string]struct {
	words string
	sent  signal.Sent
}{
	"reset": {"ECONNRESET", signal.SentAll}, "refused": {"ECONNREFUSED", signal.SentNone}, "timeout": {"timeout", signal.SentAll},
	"eof": {"EOF", signal.SentAll}, "dns": {"ENOTFOUND", signal.SentNone},
}

// checkTransport refuses a single word that is neither one of transports nor one that signals are read from: it would
// be taken for an error of a kind nobody knows.
func checkTransport(text string) error {
	if _, ok := transports[text]; ok || strings.ContainsFunc(text, unicode.IsSpace) {
		return nil
	}
	unread := signal.Classify(signal.Answer{Phase: signal.NoResponse, Transport: &signal.Transport{Error: "?"}})
	read := signal.Classify(signal.Answer{Phase: signal.NoResponse, Transport: &signal.Transport{Error: text}})
	words := slices.Sorted(maps.Keys(transports))
	switch near := policy.Nearest(text, words); {
	case read.Class != unread.Class || read.OutcomeKnown != unread.OutcomeKnown || strings.ToUpper(text) == text:
		return nil
	case near != "":
		return usagef("--transport knows no word %q; did you mean %s?", text, near)
	}
	return usagef("--transport is %s, or the words of an error, not %q", strings.Join(words, ", "), text)
}

func (a *question) noAnswer() error {
	switch {
	case a.transport == "" && (a.sent != "" || a.received != 0):
		return usagef("--sent and --received go with --transport")
	case a.transport == "":
		if a.q.Answer.Status == 0 && (a.body != "" || len(a.headers) > 0 || a.phase != "") {
			return usagef("--header, --body and --phase go with --status")
		}
		return nil
	case a.body != "" || len(a.headers) > 0 || a.phase != "":
		return usagef("--header, --body and --phase are of an answer; with --transport there was none")
	}
	if err := checkTransport(a.transport); err != nil {
		return err
	}
	t := &signal.Transport{Error: a.transport, RequestBytesSent: signal.SentAll, ResponseBytes: a.received}
	if known, ok := transports[a.transport]; ok {
		t.Error, t.RequestBytesSent = known.words, known.sent
	}
	t.RequestBytesSent = cmp.Or(signal.Sent(a.sent), t.RequestBytesSent)
	if !slices.Contains([]signal.Sent{signal.SentNone, signal.SentPartial, signal.SentAll}, t.RequestBytesSent) {
		return usagef("--sent is none, partial or all, not %q", a.sent)
	}
	a.q.Answer.Phase, a.q.Answer.Transport = signal.NoResponse, t
	return nil
}

// maxArgument bounds a body that is given by file.
const maxArgument = 2 << 20

// argument is text, the content of @FILE, or standard input for @-.
func argument(s string, stdin io.Reader) ([]byte, error) {
	name, ok := strings.CutPrefix(s, "@")
	if !ok {
		return []byte(s), nil
	}
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, wanted("@FILE is a body as it is sent or came; text without @ is the body itself", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxArgument+1))
	if err == nil && len(text) > maxArgument {
		err = fmt.Errorf("%s is larger than %s; 1 MiB of a body is read", name, size(maxArgument))
	}
	return text, err
}

// headerLines reads 'Name: value' arguments.
func headerLines(flag string, lines []string) (map[string][]string, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usagef("--%s is 'Name: value', not %q", flag, line)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}

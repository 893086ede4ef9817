package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
)

// keyOptions are the flags of `holdfast key`.
type keyOptions struct {
	config, workflow      string
	env, tenant           string
	method, path, pairs   string
	headers               []string
	asJSON, canonicalOnly bool
}

// keyCommand is `holdfast key`.
func keyCommand() *cobra.Command {
	var o keyOptions
	cmd := &cobra.Command{
		Use:   "key [FILE]",
		Short: "Print the canonical form, the fingerprint and the key of a request body",
		Long: `Print what Holdfast takes a request for: its key, its fingerprint and the canonical form that is hashed
(docs/keys.md). FILE is the body as it is sent, - standard input. A difference between the canonical forms of two
requests is the reason why they are two operations.

With --pairs INDEX it reads pairs of requests from an index file, {"pairs": [{"id", "a": {"file", "endpoint",
"headers"}, "b"}]} with the files beside it, and prints {"id", "a", "b", "same"} for each, a and b being the keys.`,
		Example: `  holdfast key body.json
  holdfast key --config holdfast.yaml --path /v1/messages -H 'anthropic-version: 2023-06-01' body.json
  diff <(holdfast key --canonical a.json) <(holdfast key --canonical b.json)
  holdfast key --pairs requests/index.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.pairs == "") == (len(args) == 0) {
				return usagef("key takes the FILE of one body, or --pairs INDEX; see holdfast key --help")
			}
			cfg, err := loadConfig(o.config)
			if err != nil {
				return err
			}
			if o.pairs != "" {
				return o.printPairs(cmd.OutOrStdout(), cfg)
			}
			k, err := o.derive(cfg, args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), k)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "holdfast.yaml with the workflows; without it the defaults, as for serve")
	f.StringVar(&o.workflow, "workflow", "", "workflow; without it the first whose match fits")
	f.StringVar(&o.path, "path", "", "path and query for the provider (default /v1/messages with an anthropic-version header, else /v1/chat/completions)")
	f.StringVar(&o.method, "method", http.MethodPost, "method")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "'Name: value'; may be repeated")
	f.StringVar(&o.env, "env", "", "environment (default the configuration's)")
	f.StringVar(&o.tenant, "tenant", "main", "tenant")
	f.StringVar(&o.pairs, "pairs", "", "index file of pairs of requests")
	f.BoolVar(&o.canonicalOnly, "canonical", false, "print the canonical form alone, byte for byte")
	jsonFlag(cmd, &o.asJSON)
	cmd.MarkFlagsMutuallyExclusive("json", "canonical")
	return cmd
}

// keyOf is what `holdfast key` says of a request.
type keyOf struct {
	Key         string `json:"key"`
	Origin      string `json:"key_origin"` // caller, derived; "" without a key
	Workflow    string `json:"workflow"`
	Derive      string `json:"derive"`
	Fingerprint string `json:"fingerprint"`
	Canonical   string `json:"canonical"`
	Business    string `json:"business,omitempty"` // what the key hashes in place of the canonical form
	Note        string `json:"note,omitempty"`
}

// derive does what the gateway does with a request.
func (o *keyOptions) derive(cfg *policy.Config, file string, stdin io.Reader) (keyOf, error) {
	r, err := o.request(cfg, file, stdin)
	if err != nil {
		return keyOf{}, err
	}
	call := provider.Parse(&provider.Request{Method: r.Method, Path: r.Path, RawQuery: r.Query, Header: r.Header, Body: r.Body})
	w, err := o.choose(cfg, r, &call)
	if err != nil {
		return keyOf{}, err
	}
	r.Workflow = w.Name
	keyer, err := keyerOf(w)
	if err != nil {
		return keyOf{}, err
	}
	fp := keyer.Fingerprint(r)
	form, why := keyer.Explain(nil, r)
	k := keyOf{Workflow: w.Name, Derive: string(w.Idempotency.Derive), Fingerprint: hex.EncodeToString(fp[:]), Canonical: string(form)}
	if why != nil {
		k.Note = "the body counts byte by byte: " + why.Error()
	}
	return k, o.keyOf(&k, keyer, w, &call, r, fp)
}

// keyOf fills in the key: the caller's own, the derived one, or none and why.
func (o *keyOptions) keyOf(k *keyOf, keyer *idempotency.Keyer, w *policy.Workflow, call *provider.Call, r *idempotency.Request, fp [32]byte) error {
	caller, explicit, err := idempotency.CallerKey(r.Header)
	switch {
	case err != nil:
		return err
	case explicit:
		k.Key, k.Origin = idempotency.ExplicitKey(r.Env, r.Tenant, caller), "caller"
		return nil
	case w.EffectOf(call.Read) == policy.Read:
		k.Note = note(k.Note, "a call that only reads has no key")
		return nil
	case w.Idempotency.Derive == policy.DeriveOff:
		k.Note = note(k.Note, "derive is off: without an Idempotency-Key this request is nobody's duplicate")
		return nil
	}
	if k.Key, err = keyer.DerivedKey(r, fp); err != nil {
		return fmt.Errorf("workflow %s: its key template does not fit this request: %w", w.Name, err)
	}
	k.Origin = "derived"
	if !call.Known {
		k.Note = note(k.Note, "the gateway passes this path through and derives no key for it")
	}
	if w.Idempotency.Key != "" {
		form, err := keyer.Business(nil, r)
		k.Business = string(form)
		return err
	}
	return nil
}

func note(before, more string) string {
	if before == "" {
		return more
	}
	return before + "; " + more
}

// request is the request that the flags describe.
func (o *keyOptions) request(cfg *policy.Config, file string, stdin io.Reader) (*idempotency.Request, error) {
	header, err := parseHeaders(o.headers)
	if err != nil {
		return nil, err
	}
	body, err := readBody(file, stdin, cfg.Limits.MaxRequestBytes)
	if err != nil {
		return nil, err
	}
	path := o.path
	if path == "" {
		path = "/v1/chat/completions"
		if header.Get("Anthropic-Version") != "" {
			path = "/v1/messages"
		}
	}
	r := &idempotency.Request{Env: cfg.Env, Tenant: o.tenant, Owner: header.Get("Holdfast-Owner"), Method: strings.ToUpper(o.method),
		Header: header, Body: body}
	r.Path, r.Query, _ = strings.Cut(path, "?")
	if o.env != "" {
		r.Env = o.env
	}
	return r, nil
}

func (o *keyOptions) choose(cfg *policy.Config, r *idempotency.Request, call *provider.Call) (*policy.Workflow, error) {
	name := o.workflow
	if name == "" {
		name = http.Header(r.Header).Get("Holdfast-Workflow")
	}
	if name == "" {
		return cfg.Match(r.Path, call.Model, r.Header), nil
	}
	return workflowNamed(cfg, name)
}

func workflowNamed(cfg *policy.Config, name string) (*policy.Workflow, error) {
	if w := cfg.Workflow(name); w != nil {
		return w, nil
	}
	names := make([]string, len(cfg.Workflows))
	for i := range cfg.Workflows {
		names[i] = cfg.Workflows[i].Name
	}
	return nil, usagef("there is no workflow %q; workflows are %s (--config names the file)", name, strings.Join(names, ", "))
}

func keyerOf(w *policy.Workflow) (*idempotency.Keyer, error) {
	k, err := idempotency.New(idempotency.Config{Ignore: w.Idempotency.Ignore, SchemaVersion: w.Idempotency.SchemaVersion, Key: w.Idempotency.Key})
	if err != nil {
		return nil, fmt.Errorf("workflow %s: %w", w.Name, err)
	}
	return k, nil
}

func parseHeaders(list []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range list {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usagef("-H takes 'Name: value', not %q", line)
		}
		h[textproto.CanonicalMIMEHeaderKey(name)] = append(h[textproto.CanonicalMIMEHeaderKey(name)], strings.TrimSpace(value))
	}
	return h, nil
}

// readBody reads a file, or standard input for -, within the gateway's own bound.
func readBody(file string, stdin io.Reader, limit int64) ([]byte, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, wanted("FILE is the body of a request as it is sent, - is standard input", err)
		}
		defer f.Close()
		from = f
	}
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errors.New("is larger than limits.max_request_bytes, " + size(limit))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return body, nil
}

func (o *keyOptions) print(out io.Writer, k keyOf) error {
	switch {
	case o.asJSON:
		return writeJSON(out, k)
	case o.canonicalOnly:
		_, err := io.WriteString(out, k.Canonical)
		return err
	}
	origin := map[string]string{"caller": "the caller's own (Idempotency-Key)", "derived": "derived from the request", "": "none"}[k.Origin]
	var b strings.Builder
	fmt.Fprintf(&b, "key          %s\n", or(k.Key))
	fmt.Fprintf(&b, "origin       %s\n", origin)
	fmt.Fprintf(&b, "workflow     %s (derive: %s)\n", k.Workflow, k.Derive)
	fmt.Fprintf(&b, "fingerprint  %s\n", k.Fingerprint)
	if k.Note != "" {
		fmt.Fprintf(&b, "note         %s\n", k.Note)
	}
	if k.Business != "" {
		fmt.Fprintf(&b, "\nthe key hashes, by the workflow's template:\n\n%s\n", strings.TrimSuffix(k.Business, "\n"))
	}
	fmt.Fprintf(&b, "\ncanonical form, which the fingerprint hashes:\n\n%s\n", strings.TrimSuffix(k.Canonical, "\n"))
	_, err := io.WriteString(out, b.String())
	return err
}

// printPairs prints one line for each pair of the index.
func (o *keyOptions) printPairs(out io.Writer, cfg *policy.Config) error {
	name := o.workflow
	if name == "" {
		name = policy.DefaultWorkflow
	}
	w, err := workflowNamed(cfg, name)
	if err != nil {
		return err
	}
	keyer, err := keyerOf(w)
	if err != nil {
		return err
	}
	found := false
	err = keyer.Pairs(o.pairs, func(p idempotency.PairResult) error {
		found = true
		return writeJSON(out, p)
	})
	if err == nil && !found {
		err = fmt.Errorf(`%s has no pairs; an index is {"pairs": [{"id", "a": {"file", "endpoint", "headers"}, "b"}]}`, o.pairs)
	}
	return err
}

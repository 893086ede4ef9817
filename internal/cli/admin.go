package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

const (
	adminEnv     = "HOLDFAST_ADMIN"
	adminKeyEnv  = "HOLDFAST_ADMIN_KEY"
	adminDefault = "127.0.0.1:8788"
	// adminWait bounds one call; looking a key up in a large store takes a while.
	adminWait = 60 * time.Second
	// adminAnswer bounds what is read of an answer.
	adminAnswer = 256 << 20
)

// errNoSuch is the API's not_found.
var errNoSuch = errors.New("there is no such operation")

// adminAPI is the admin API of a running gateway, or the same API over a store that is opened beside one.
type adminAPI struct {
	base *url.URL
	key  string
	http *http.Client
	name string // what errors call it
	// beside says that it is a store and not a gateway.
	beside bool
	// instead is what else a person may do where it cannot be reached.
	instead string
}

// adminFlags adds --admin to a command.
func adminFlags(cmd *cobra.Command, addr *string) {
	cmd.Flags().StringVar(addr, "admin", "", "URL of a running gateway's admin API (default $"+adminEnv+", else "+adminDefault+
		"); $"+adminKeyEnv+" is its credential")
}

// dialAdmin finds the admin API by flag, environment or default. Nothing is sent yet.
func dialAdmin(flag string) (*adminAPI, error) {
	addr, from := flag, "--admin"
	if addr == "" {
		addr, from = os.Getenv(adminEnv), adminEnv
	}
	if addr == "" {
		addr = adminDefault
	}
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(strings.TrimSuffix(addr, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, usagef("%s is the address of the admin API, such as http://%s; a credential belongs in %s", from, adminDefault, adminKeyEnv)
	}
	if host, port, err := net.SplitHostPort(u.Host); err == nil && host == "" {
		u.Host = net.JoinHostPort("127.0.0.1", port)
	}
	return &adminAPI{base: u, key: os.Getenv(adminKeyEnv), name: "the admin API at " + u.String(), http: &http.Client{
		Timeout: adminWait,
		// A redirect would carry the credential elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// intent returns one operation with its history.
func (a *adminAPI) intent(ctx context.Context, id string) (v admin.Intent, err error) {
	return v, a.call(ctx, http.MethodGet, "/holdfast/v1/intents/"+url.PathEscape(id), nil, nil, &v)
}

// byKey returns the latest operation under a full key, or under a caller's own key of a tenant.
func (a *adminAPI) byKey(ctx context.Context, key, tenant string) (v admin.Intent, err error) {
	q := url.Values{"key": {key}}
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	return v, a.call(ctx, http.MethodGet, "/holdfast/v1/intents", q, nil, &v)
}

// list returns one page, newest first.
func (a *adminAPI) list(ctx context.Context, q url.Values) (page []admin.Intent, err error) {
	return page, a.call(ctx, http.MethodGet, "/holdfast/v1/intents", q, nil, &page)
}

// resolve settles an unknown by a person's word.
func (a *adminAPI) resolve(ctx context.Context, id string, r admin.Resolution) (v admin.Intent, err error) {
	return v, a.call(ctx, http.MethodPost, "/holdfast/v1/intents/"+url.PathEscape(id)+"/resolve", nil, r, &v)
}

func (a *adminAPI) call(ctx context.Context, method, path string, q url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	target := a.base.JoinPath(path)
	target.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return err
	}
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return a.unreachable(ctx, method, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, adminAnswer))
	if err != nil {
		return a.unreachable(ctx, method, err)
	}
	if method == http.MethodPost && resp.Header.Get("Holdfast-Source") == "replay" {
		return &refusal{status: http.StatusConflict, by: a.name, message: fmt.Sprintf(
			"this idempotency_key is that of a call, which has its answer (HTTP %d): holdfast intents show %s", resp.StatusCode, resp.Header.Get("Holdfast-Intent"))}
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		return a.refused(resp, text)
	}
	if h, ok := out.(interface{ headed(http.Header) }); ok {
		h.headed(resp.Header)
	}
	if !a.beside && resp.Header.Get(admin.ScopeHeader) == "" {
		return fmt.Errorf("%s is none: what answers there shows one tenant's operations or is something else; name the address of `holdfast serve --admin`", a.name)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s does not answer as one: %w; is it the address of `holdfast serve --admin`?", a.name, err)
	}
	return nil
}

// unreachable says which address was tried and what to do, or that this side did not wait for it.
func (a *adminAPI) unreachable(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		done := ""
		if method != http.MethodGet {
			done = ", and what it was asked for may be done all the same: the same command again shows it"
		}
		return fmt.Errorf("%w: %s had not answered yet%s", context.Cause(ctx), a.name, done)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the URL, which the name has
	}
	return &awayError{err, fmt.Sprintf("%s cannot be reached: %s; start `holdfast serve`, or name the address of a running one with --admin or %s%s",
		a.name, err, adminEnv, a.instead)}
}

// awayError is an API that cannot be reached.
type awayError struct {
	cause error
	text  string
}

func (e *awayError) Error() string { return e.text }
func (e *awayError) Unwrap() error { return e.cause }

// isAway reports whether an error may pass by itself: the gateway is not there, ends in good order, begins, or has no store.
func isAway(err error) bool {
	var away *awayError
	var refused *refusal
	return errors.As(err, &away) || errors.As(err, &refused) && refused.passes()
}

// awayWhy is why, in a few words.
func awayWhy(err error) string {
	var away *awayError
	if errors.As(err, &away) {
		return away.cause.Error()
	}
	return err.Error()
}

func (a *adminAPI) refused(resp *http.Response, text []byte) error {
	var f admin.Failure
	if json.Unmarshal(text, &f) != nil || f.Error.Code == "" {
		if (&refusal{status: resp.StatusCode}).passes() { // a balancer's
			return &awayError{errors.New(resp.Status), fmt.Sprintf("%s answered %s", a.name, resp.Status)}
		}
		return fmt.Errorf("%s answered %s; is it the address of `holdfast serve --admin`?", a.name, resp.Status)
	}
	switch f.Error.Code {
	case "not_found":
		return errNoSuch
	case "unauthorized":
		return fmt.Errorf("%s asks for a credential: set %s to a key of auth.keys with role: operator", a.name, adminKeyEnv)
	case "invalid_request":
		return &usageError{errors.New(f.Error.Message)}
	}
	return &refusal{status: resp.StatusCode, by: a.name, message: f.Error.Message}
}

// refusal is an answer of the API that says no.
type refusal struct {
	status      int
	by, message string
}

func (r *refusal) passes() bool {
	return r.status == http.StatusBadGateway || r.status == http.StatusServiceUnavailable || r.status == http.StatusGatewayTimeout
}

func (r *refusal) Error() string { return r.by + " refused: " + r.message }

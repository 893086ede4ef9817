package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// credentialParameters may stand in any query: they prove who calls, as Gemini's clients do it (gateway.Guard.Credential).
var credentialParameters = []string{"key", "access_token", "api_key"}

// listParameters are those of a listing.
var listParameters = []string{"key", "workflow", "tenant", "idempotency_key", "before", "limit", "lane", "jobs", "all", "state", "outcome",
	"older_than", "newer_than"}

// writeParameters are those that a call which writes takes, by the last part of its path. A word that it does not know may be one
// that was to keep it from writing: there it is refused, and not overlooked.
var writeParameters = map[string][]string{"replay": {"dry_run"}, "approve": {"dry_run"}}

// strict refuses calls that write whose query does not say, in words that are known, what it is for.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if _, err := parameters(r, writeParameters[path.Base(r.URL.Path)]); err != nil {
				fail(w, http.StatusBadRequest, "invalid_request", err.Error())
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// parameters reads a query that holds no others than these, and each once.
func parameters(r *http.Request, known []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what Query leaves out of such a one in silence
		return nil, fmt.Errorf("the query cannot be read: %w", err)
	}
	for name, values := range q {
		switch {
		case slices.Contains(known, name) && len(values) > 1:
			return nil, fmt.Errorf("%s is given more than once", name)
		case !slices.Contains(known, name) && !slices.Contains(credentialParameters, name):
			return nil, fmt.Errorf("there is no parameter %.64q here%s", name, instead(known))
		}
	}
	return q, nil
}

func instead(known []string) string {
	if len(known) == 0 {
		return ": this call takes none"
	}
	return "; it takes " + strings.Join(known, ", ")
}

// flagOf reads a parameter that is true or false; one that is not there is false.
func flagOf(q url.Values, name string) (bool, error) {
	if !q.Has(name) {
		return false, nil
	}
	switch v := q.Get(name); v {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, fmt.Errorf("%s is true or false (or 1, 0), not %.64q", name, v)
	}
}

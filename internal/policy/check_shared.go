package policy

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longSharedTimeout is what a request should wait for shared state at most.
const longSharedTimeout = 100 * time.Millisecond

// sharedParameters are what an address of shared state may say behind its question mark, by its scheme; the drivers refuse all else, too.
var sharedParameters = map[string][]string{"postgres": {"application_name", "channel_binding", "connect_timeout", "sslcert", "sslkey", "sslmode",
	"sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "target_session_attrs"}}

func (k *checker) sharedState() {
	s := k.c.SharedState
	if s == nil {
		return
	}
	const at = "shared_state.url"
	k.password(at, s.URL)
	if s.Timeout > longSharedTimeout {
		k.warn("shared_state.timeout", fmt.Sprintf("a request may wait %s for shared state", Span(s.Timeout)), "write 100ms or less: one that is slower is better local")
	}
	u, err := url.Parse(s.URL.Reveal())
	if err != nil {
		k.fail(at, "is no address", "write redis://HOST:PORT/DATABASE or postgres://USER@HOST:PORT/DATABASE")
		return
	}
	family := strings.TrimSuffix(u.Scheme, "ql")
	known := sharedParameters[family]
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		switch {
		case slices.Contains(known, name):
		case len(known) == 0:
			k.fail(at, fmt.Sprintf("the parameter %q is not known: an address of Redis has none", name), "remove it; for TLS write rediss://")
		default:
			k.fail(at, fmt.Sprintf("the parameter %q is not known", name), "remove it, or write one of "+strings.Join(known, ", "))
		}
	}
	if db := strings.Trim(u.Path, "/"); family != "postgres" && db != "" {
		if n, err := strconv.Atoi(db); err != nil || n < 0 {
			k.fail(at, fmt.Sprintf("%q is no database of Redis", db), "write its number, e.g. redis://127.0.0.1:6379/0")
		}
	}
}

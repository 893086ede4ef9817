package ledger

import "net/url"

// Masked is an address as it may be shown: without user, fragment and what its query says, which may be a secret
// (semantics 45).
func Masked(address string) string {
	if address == "" {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil {
		return "[no address]"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		u.RawQuery = "masked"
	}
	return u.String()
}

package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkRequest refuses what could be read as two requests or as another one than was meant (RFC 9112 section 11.1).
func checkRequest(r *Request) error {
	u := r.Target
	switch {
	case u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: the target is no absolute http or https URL", ErrRequest)
	case !isToken(r.Method) || r.Method == http.MethodConnect:
		return fmt.Errorf("%w: bad method %q", ErrRequest, r.Method)
	case !isVisible(wirePath(u)) || !isVisible(u.RawQuery) || !isVisible(u.Host):
		return fmt.Errorf("%w: the target holds spaces or control characters", ErrRequest)
	}
	for name, values := range r.Header {
		if !isToken(name) {
			return fmt.Errorf("%w: bad header name %q", ErrRequest, name)
		}
		if !slices.ContainsFunc(values, func(v string) bool { return !isFieldValue(v) }) {
			continue
		}
		return fmt.Errorf("%w: header %s holds control characters", ErrRequest, name)
	}
	return nil
}

// wirePath is the path as it was parsed: url.URL keeps the spelling in RawPath where its own would differ.
func wirePath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

// wireHost drops the colon of an empty port and an IPv6 zone, which means something only on this machine (RFC 6874).
func wireHost(u *url.URL) string {
	host := strings.TrimSuffix(u.Host, ":")
	if zone := strings.IndexByte(host, '%'); zone >= 0 && strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host[zone:], ']'); end >= 0 {
			host = host[:zone] + host[zone+end:]
		}
	}
	return host
}

// isToken is the grammar of methods and field names (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenByte = func() (table [256]bool) {
	for c := range 256 {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		table[c] = letter || digit || c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return table
}()

// isVisible says that s has no byte that ends a request target or a line.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// isFieldValue allows what RFC 9110 section 5.5 does: no control character but the tab.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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

// appendHead appends the head of r as HTTP/1.1. The order of the fields does not matter and is not kept.
func appendHead(b []byte, r *Request) []byte {
	u := r.Target
	b = append(append(b, r.Method...), ' ')
	b = append(b, wirePath(u)...)
	if u.ForceQuery || u.RawQuery != "" {
		b = append(append(b, '?'), u.RawQuery...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, wireHost(u)...)
	b = append(b, "\r\n"...)
	named := connectionFields(r.Header)
	for name, values := range r.Header {
		if isHopByHop(name, named) {
			continue
		}
		for _, value := range values {
			b = append(append(b, name...), ": "...)
			b = append(append(b, strings.Trim(value, " \t")...), "\r\n"...)
		}
	}
	if len(r.Body) > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(r.Body)), 10), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// isHopByHop names the fields between two neighbours, and those the client writes itself.
func isHopByHop(name string, named []string) bool {
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Http2-Settings", "Host", "Content-Length", "Expect":
		return true
	}
	return slices.Contains(named, name)
}

// connectionFields are the further hop-by-hop fields that a Connection header names (RFC 9110 section 7.6.1).
func connectionFields(h http.Header) []string {
	var names []string
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

package callback

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

var (
	// ErrURL refuses a callback_url by its form.
	ErrURL = errors.New("callback_url")
	// ErrAddress refuses an address when it is dialled.
	ErrAddress = errors.New("callback address refused")
)

// maxURL bounds a callback_url in bytes.
const maxURL = 2048

// Allow is what may be called although it is no public address, over plain HTTP and at any port too. The zero value allows
// nothing.
type Allow struct {
	hosts    map[string]bool
	prefixes []netip.Prefix
}

// ParseAllow reads the entries of callbacks.allow: hosts by name, addresses and CIDRs. A name allows what it resolves to.
func ParseAllow(entries []string) Allow {
	a := Allow{hosts: map[string]bool{}}
	for _, e := range entries {
		if p, err := netip.ParsePrefix(e); err == nil {
			a.prefixes = append(a.prefixes, p.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(strings.Trim(e, "[]")); err == nil {
			ip = ip.Unmap()
			a.prefixes = append(a.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		a.hosts[hostName(e)] = true
	}
	return a
}

// hostName is a host as names are compared: without case, and without the dot at its end.
func hostName(h string) string { return strings.ToLower(strings.TrimSuffix(h, ".")) }

func (a *Allow) host(name string) bool { return a.hosts[hostName(name)] }

func (a *Allow) addr(ip netip.Addr) bool {
	for _, p := range a.prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// target is a callback_url whose form has been checked.
type target struct {
	url  *url.URL
	host string
	port uint16
}

// Host is the host and port that a callback_url names, as one text by which its siblings are told; "" where it is none.
func Host(raw string) string {
	t, err := parse(raw)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(hostName(t.host), strconv.Itoa(int(t.port)))
}

func parse(raw string) (*target, error) {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL:
		return nil, fmt.Errorf("%w is longer than %d bytes", ErrURL, maxURL)
	case err != nil || !u.IsAbs() || u.Opaque != "" || u.Hostname() == "":
		return nil, fmt.Errorf("%w is an absolute address, such as https://shop.example/holdfast", ErrURL)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%w begins with https://", ErrURL)
	case u.User != nil:
		return nil, fmt.Errorf("%w carries a user or password; the receiver knows a callback by its signature", ErrURL)
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, fmt.Errorf("%w has a fragment, which no server sees", ErrURL)
	}
	t := &target{url: u, host: u.Hostname(), port: 443}
	if u.Scheme == "http" {
		t.port = 80
	}
	if strings.ContainsFunc(t.host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`%/\"<>^{|}`, r) }) {
		return nil, fmt.Errorf("%w names a host in letters that are not ASCII, or an address with a zone; write it as DNS does", ErrURL)
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%w has no port from 1 to 65535", ErrURL)
		}
		t.port = uint16(n)
	}
	return t, nil
}

// Check refuses a callback_url that can never be called under an allow list. A name may still turn out to stand for an
// address that is refused: that is found when it is dialled, each time.
func Check(raw string, a Allow) error {
	t, err := parse(raw)
	if err != nil {
		return err
	}
	if a.host(t.host) {
		return nil
	}
	if ip, err := netip.ParseAddr(t.host); err == nil {
		if err := t.permit(ip, t.port, &a); err != nil {
			return fmt.Errorf("%w: %w", ErrURL, err)
		}
		return nil
	}
	name := hostName(t.host)
	switch {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		if len(a.prefixes) == 0 {
			return fmt.Errorf("%w: %s is this machine; callbacks.allow lists what may be called of it", ErrURL, name)
		}
	case t.url.Scheme == "http" && len(a.prefixes) == 0:
		return fmt.Errorf("%w begins with https:// (plain http:// only for what callbacks.allow lists)", ErrURL)
	}
	return nil
}

// permit refuses an address that is about to be connected to.
func (t *target) permit(ip netip.Addr, port uint16, a *Allow) error {
	ip = ip.Unmap()
	if a.host(t.host) || a.addr(ip) || mutant.On("callback-dials-private") {
		return nil
	}
	switch {
	case !public(ip):
		return fmt.Errorf("%w: %s is no public address; callbacks.allow lists exceptions", ErrAddress, ip)
	case t.url.Scheme != "https":
		return fmt.Errorf("%w: %s is called over https only; callbacks.allow lists exceptions", ErrAddress, ip)
	case port != 443 && port < 1024:
		return fmt.Errorf("%w: port %d is another service's (443, or from 1024 on)", ErrAddress, port)
	}
	return nil
}

// special are the networks of the IANA special-purpose registries (RFC 6890 and its updates) that are no host of the public
// internet, or that stand for an IPv4 address which no check of the IPv6 one has seen. Beside them one public address that
// is a cloud's own on every machine of it.
var special = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's wire server
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")

// global is what of IPv6 is global unicast (RFC 4291): all else, NAT64 (64:ff9b::/96) among it, is none.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, text := range list {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// public reports whether an address, as Unmap leaves it, is a host of the public internet.
func public(ip netip.Addr) bool {
	if !ip.IsValid() || ip.Zone() != "" || ip.Is6() && !global.Contains(ip) {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

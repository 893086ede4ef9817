package policy

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

const redacted = "[redacted]"

// Secret is a value that never prints: no verb of fmt, no log, no JSON and no YAML shows it (semantics 45). The text is
// behind a pointer because fmt goes round Format for a verb that does not fit, such as %p.
type Secret struct{ text *string }

// NewSecret wraps a credential.
func NewSecret(value string) Secret { return Secret{hide(value)} }

func hide(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func show(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Reveal returns the credential, for the one place that sends it.
func (s Secret) Reveal() string { return show(s.text) }

// IsZero reports whether there is no credential.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal compares in constant time.
func (s Secret) Equal(o Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

// String is "[redacted]", or empty without a credential.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format serves every verb alike: %#v and %d would otherwise print the field.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText serves JSON, YAML and flag packages.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue serves slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// DSN is an address that may carry a password. It prints with the password masked.
type DSN struct{ text *string }

// NewDSN wraps an address.
func NewDSN(value string) DSN { return DSN{hide(value)} }

// Reveal returns the address with its password.
func (d DSN) Reveal() string { return show(d.text) }

// IsZero reports whether there is no address.
func (d DSN) IsZero() bool { return d.text == nil }

// Equal compares two addresses, passwords included.
func (d DSN) Equal(o DSN) bool { return d.Reveal() == o.Reveal() }

// Scheme is the part before the first colon in lower case, e.g. sqlite, postgres, redis.
func (d DSN) Scheme() string {
	scheme, _, _ := strings.Cut(d.Reveal(), ":")
	return strings.ToLower(scheme)
}

// Path is what follows the scheme of a sqlite: address.
func (d DSN) Path() string {
	_, rest, _ := strings.Cut(d.Reveal(), ":")
	return strings.TrimPrefix(rest, "//")
}

// String is the address with its password and query credentials masked.
func (d DSN) String() string {
	if d.Scheme() == "sqlite" || d.IsZero() {
		return d.Reveal()
	}
	u, err := url.Parse(d.Reveal())
	if err != nil || u.Host == "" {
		return redacted
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), "redacted")
		}
	}
	if q := u.Query(); q.Has("password") {
		q.Set("password", "redacted")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// Format serves every verb alike.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText serves JSON, YAML and flag packages.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue serves slog.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

package redact

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
)

// Field is a header field, or a variable of an environment, that proves something.
type Field struct{ Name, Value string }

// Shortest is the number of bytes below which no secret is looked for, and wordy the one below which none is that might be a word:
// either would blot out what answers say of other things.
const (
	Shortest = 8
	wordy    = 16
)

// Distinct reports whether the field's secret can be told from what answers say of other things. One that cannot is not looked for:
// a number, a word, anything short.
func (f Field) Distinct() bool {
	for _, s := range f.secrets() {
		if distinct(s) {
			return true
		}
	}
	return false
}

// schemes are how values begin whose secret follows.
var schemes = map[string]bool{"basic": true, "bearer": true, "token": true, "apikey": true, "api-key": true, "key": true, "digest": true, "dpop": true,
	"ssws": true, "geniekey": true, "splunk": true, "negotiate": true}

// secrets are what of the value proves something: what follows a scheme, a cookie's values, the password in an address, else all of it.
func (f Field) secrets() []string {
	value, name := strings.TrimSpace(f.Value), strings.ToLower(f.Name)
	if strings.Contains(name, "cookie") {
		return cookies(value)
	}
	all := []string{value}
	scheme, rest, two := strings.Cut(value, " ")
	if rest = strings.TrimSpace(rest); two && schemes[strings.ToLower(scheme)] {
		all = append([]string{rest}, parameters(rest)...)
	} else if two && strings.HasSuffix(name, "authorization") {
		all = append(append(all, rest), parameters(rest)...)
	}
	if strings.EqualFold(scheme, "basic") && two {
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			all = append(all, password)
		}
	}
	if password := Password(value); password != "" {
		all = append(all, password)
	}
	return all
}

// Password is the one that an address bears, "" without.
func Password(address string) string {
	if !strings.Contains(address, "://") {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// cookies are the values of a Cookie field (RFC 6265, section 4.2).
func cookies(value string) []string {
	var all []string
	for pair := range strings.SplitSeq(value, ";") {
		name, v, ok := strings.Cut(pair, "=")
		if !ok {
			v = name
		}
		all = append(all, strings.Trim(strings.TrimSpace(v), `"`))
	}
	return all
}

// parameters are the values in name="value", … (RFC 9110, section 11.4).
func parameters(text string) []string {
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if _, v, ok := strings.Cut(part, "="); ok {
			all = append(all, strings.Trim(strings.TrimSpace(v), `"`))
		}
	}
	return all
}

// distinct says that a text can hardly stand in an answer for something else.
func distinct(text string) bool {
	if len(text) < Shortest || number(text) || host(text) {
		return false
	}
	return len(text) >= wordy || !wordlike(text)
}

// number says that a text is one, or a date, or groups of digits.
func number(text string) bool {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return true
	}
	return strings.Trim(text, "0123456789+-.,:_/ ") == ""
}

// host says that a text is an address of a whole host: answers link to it.
func host(text string) bool {
	if !strings.Contains(text, "://") {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

// wordlike says that a text might be words, or groups of digits: it mixes no digits and letters, and has no signs that words have not.
func wordlike(text string) bool {
	digits, letters := false, false
	for _, r := range text {
		switch {
		case r >= '0' && r <= '9':
			digits = true
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127:
			letters = true
		case !strings.ContainsRune("-_.,:/ *", r):
			return false
		}
	}
	return !digits || !letters
}

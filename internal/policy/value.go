package policy

import (
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	headerForm = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$`)
	fieldForm  = regexp.MustCompile(`^[!#-\-/-Z^-z|~]+(\.[!#-\-/-Z^-z|~]+)*$`)
	routeForm  = regexp.MustCompile(`^(\*|[A-Z]{1,16}) /\S*$`)
	statusForm = regexp.MustCompile(`^[1-5][0-9][0-9]$`)
)

// conditions of enter_when and fail_closed_when (semantics 37).
var conditionNames = []string{
	"retry_after_exceeds_deadline", "partial_output_committed", "quota_or_spend_exhausted", "permission_denied",
	"fallback_contract_unknown", "fallback_contract_mismatch", "data_boundary_mismatch", "not_idempotent",
	"max_attempts_exhausted", "max_queue_age_exceeded",
}

// triggers of retry.on beside statuses.
var triggerNames = []string{"connection_error", "timeout"}

// pattern is the regular expression of a check that has one, for the JSON schema; empty otherwise.
func pattern(check string) string {
	switch check {
	case "name", "tier":
		return nameForm.String()
	case "header":
		return headerForm.String()
	case "field":
		return fieldForm.String()
	case "route":
		return routeForm.String()
	}
	return ""
}

// check applies the field's enum and its checks to a value that was just set.
func (f *field) check(v reflect.Value, text string) (what, remedy string) {
	if f.enum != nil && !slices.Contains(f.enum, text) {
		return quote(text) + " is not known here", suggest(text, f.enum)
	}
	if v.Kind() == reflect.Int || v.Kind() == reflect.Int64 || v.Kind() == reflect.Float64 {
		return f.checkNumber(v, text)
	}
	for _, is := range f.is {
		if text == "" && is != "required" {
			return "is empty", "write a value or remove the line"
		}
		if what, remedy = checkText(is, text); what != "" {
			return what, remedy
		}
	}
	if strings.ContainsFunc(text, isControl) {
		return "contains a control character", "remove it"
	}
	return "", ""
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

func (f *field) checkNumber(v reflect.Value, text string) (what, remedy string) {
	var x float64
	if v.Kind() == reflect.Float64 {
		x = v.Float()
	} else {
		x = float64(v.Int())
	}
	for _, is := range f.is {
		switch {
		case is == "positive" && x <= 0:
			return text + " is not above zero", "write a larger value, or remove the line for the default"
		case is == "attempts" && (x < 1 || x > 100):
			return text + " is out of range", "write 1 (no retry) to 100"
		case is == "ratio" && (x < 0 || x > 1) && f.name == "threshold":
			return text + " is no similarity", "write 0.9 to 0.999, e.g. 0.95"
		case is == "ratio" && (x < 0 || x > 1):
			return text + " is not a share", "write a number from 0 to 1, e.g. 0.2"
		}
	}
	if x < 0 {
		return text + " is negative", "write 0 or more"
	}
	return "", ""
}

func checkText(is, text string) (what, remedy string) {
	switch is {
	case "required":
		if text == "" {
			return "is empty", "write a value"
		}
	case "name", "tier":
		return checkName(is, text)
	case "addr":
		return checkAddr(text)
	case "url":
		return checkURL(text)
	case "advertise":
		return checkAdvertise(text)
	case "store":
		return checkStore(text)
	case "shared":
		return checkScheme(text, "redis://127.0.0.1:6379/0 or postgres://user@host/db", "redis", "rediss", "valkey", "valkeys", "postgres", "postgresql")
	case "sqldsn":
		if file, ok := strings.CutPrefix(text, "sqlite:"); ok && strings.Trim(file, "/") != "" {
			return "", ""
		}
		return checkScheme(text, "postgres://user@host/db", "postgres", "postgresql")
	case "header":
		if !headerForm.MatchString(text) {
			return quote(text) + " is not a header name", "write letters, digits and hyphens, e.g. X-Api-Key"
		}
	case "field":
		if !fieldForm.MatchString(text) {
			return quote(text) + " is not a body field", "write a name, or a.b.c for a nested one"
		}
	case "route":
		if !routeForm.MatchString(text) {
			return quote(text) + " is not a route", `write METHOD /path, e.g. "POST /charges"`
		}
	case "trigger":
		if !statusForm.MatchString(text) && !slices.Contains(triggerNames, text) {
			return quote(text) + " is neither a status nor " + strings.Join(triggerNames, " or "), "write e.g. 429, 503 or connection_error"
		}
	case "condition":
		if !slices.Contains(conditionNames, text) {
			return quote(text) + " is not a condition", suggest(text, conditionNames)
		}
	default:
		return checkForm(is, text)
	}
	return "", ""
}

// checkForm has the checks that look inside a value.
func checkForm(is, text string) (what, remedy string) {
	switch is {
	case "template":
		return checkTemplate(text)
	case "pattern":
		return checkPattern(text)
	case "prompt":
		if !strings.Contains(text, "{input}") {
			return "has no {input}", "write where the user's text goes, as {input}"
		}
	case "host":
		if !isHost(text) {
			return quote(text) + " is not a host name", "write the name alone, e.g. gateway.example.com, without scheme, port or path"
		}
	case "cidr":
		if _, err := netip.ParsePrefix(text); err != nil && !isHost(text) {
			return quote(text) + " is neither a host, an address nor a CIDR", "write e.g. 10.0.0.0/8"
		}
	case "pathglob":
		if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "*") {
			return quote(text) + " is not a path", "begin it with a slash, e.g. /v1/chat/completions"
		}
		return checkForm("glob", text)
	case "glob":
		if len(text) > 512 || strings.Count(text, "*") > 16 {
			return "is too long a glob", "write at most 512 characters and 16 stars"
		}
	case "line":
		if len(text) > 1024 || strings.ContainsAny(text, "\r\n") {
			return "is longer than one line of 1024 characters", "shorten it"
		}
	}
	return "", ""
}

func checkName(is, text string) (what, remedy string) {
	if !nameForm.MatchString(text) {
		return quote(text) + " is not a name", "write 1 to 64 of a-z, 0-9, _ and -" + alternative(text)
	}
	if is == "tier" && (text == "replay" || text == "cache" || text == "default") {
		return quote(text) + " is reserved", "choose another name for the tier; Holdfast-Source uses this one"
	}
	return "", ""
}

// alternative proposes a valid name that looks like the given one.
func alternative(text string) string {
	out := strings.Map(func(r rune) rune {
		switch r = unicode.ToLower(r); {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r == ' ' || r == '.' || r == '/':
			return '_'
		}
		return -1
	}, text)
	if !nameForm.MatchString(out) || strings.Trim(out, "_-") == "" {
		return ""
	}
	return ", e.g. " + out
}

func checkAddr(text string) (what, remedy string) {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		if n, perr := strconv.Atoi(port); perr == nil && n >= 0 && n <= 65535 {
			return "", ""
		}
	}
	return quote(text) + " is not an address", "write HOST:PORT, e.g. 127.0.0.1:8787"
}

func checkURL(text string) (what, remedy string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not an http or https address", "write e.g. https://api.openai.com/v1"
	case u.User != nil:
		return "carries a credential", "put it in api_key or headers, where it is never printed"
	case u.Fragment != "":
		return "has a fragment", "remove what follows #"
	}
	return "", ""
}

// checkAdvertise takes the address of a listener, as others reach it.
func checkAdvertise(text string) (what, remedy string) {
	const form = "write scheme, host and port alone, e.g. http://10.0.0.5:8787"
	if text == "" {
		return "", ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || len(text) > 512:
		return quote(text) + " is no address of a replica", form
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return quote(text) + " is more than an address", form
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
		return quote(text) + " is no machine's address", "write this machine's own, e.g. http://${POD_IP}:8787"
	}
	return "", ""
}

// storeDSN writes a plain file name out as the sqlite: address that it stands for.
func storeDSN(text string) DSN {
	if text == "" || !isFileName(text) {
		return NewDSN(text)
	}
	return NewDSN("sqlite:" + text)
}

// isFileName tells a file's name, also one with a drive's letter, from an address with a scheme. The words of another
// database (host=db password=…) are none: a store's name is shown in logs.
func isFileName(text string) bool {
	scheme, _, ok := strings.Cut(text, ":")
	return (!ok || len(scheme) == 1) && !strings.ContainsAny(text, "=@ ")
}

func checkStore(text string) (what, remedy string) {
	if isFileName(text) || strings.HasPrefix(text, "file:") || strings.HasPrefix(text, ":") {
		text = "sqlite:" + text
	}
	if rest, ok := strings.CutPrefix(text, "sqlite:"); ok {
		switch rest = strings.TrimPrefix(rest, "//"); {
		case strings.Contains(strings.ToLower(rest), ":memory:"):
			return "is not a file, and a log in memory would forget what it was told", "write sqlite:FILE; for a passing one, a file in a temporary folder"
		case strings.HasPrefix(rest, "file:"):
			return "is a URI, not a file", "write sqlite:" + strings.TrimPrefix(rest, "file:")
		case rest == "" || rest[0] == ':' || strings.ContainsAny(rest, "?#\""):
			return "names no file", "write sqlite:holdfast.db or sqlite:/var/lib/holdfast/holdfast.db"
		}
		return "", ""
	}
	return checkScheme(text, "sqlite:holdfast.db, holdfast.db or postgres://user@host/db", "postgres", "postgresql")
}

func checkScheme(text, example string, schemes ...string) (what, remedy string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		return "is not an address of a kind known here", "write " + example
	}
	return "", ""
}

func isHost(text string) bool {
	if _, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return true
	}
	return len(text) > 0 && len(text) <= 253 && !strings.ContainsFunc(text, func(r rune) bool {
		return r > unicode.MaxASCII || r != '.' && r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

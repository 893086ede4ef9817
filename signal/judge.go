package signal

import (
	"strconv"
	"strings"
)

// judge applies the rules from the most to the least specific: codes that name a cause, words that name one,
// then what the status says. The limit is found beside them.
func judge(status int, f *fault) verdict {
	if f.inBand && !f.present {
		return verdict{class: None}
	}
	if !f.inBand && status < 300 {
		return verdict{class: ServerError, flags: processed} // 1xx or nonsense
	}
	effective := effectiveStatus(status, f)
	msg := strings.ToLower(f.message)
	v, ok := byCode(f, effective)
	if !ok || v.class == RateLimited { // words may be more exact than a code that says no more than "limit"
		if w, found := byPhrase(msg, effective, f); found {
			v, ok = w, true
		}
	}
	if !ok {
		v = byStatus(effective)
	}
	if effective == 408 && ranOut(f, msg) {
		v.flags |= processed
	}
	return withLimit(v, f, msg)
}

// ranOut: a 408 in an API's own words means that the model ran out of time; a proxy's page, or one that says so,
// that the request did not arrive.
func ranOut(f *fault, msg string) bool {
	return msg != "" && f.page == "" && !containsAny(msg, []string{"complete request", "waiting for the request", "request body", "reading the request"})
}

// byCode tries the codes from the most specific on; a status word is none.
func byCode(f *fault, status int) (verdict, bool) {
	for _, w := range f.words() {
		if w == "" {
			continue
		}
		if c, ok := codes[normal(w)]; ok && c.class != "" && inStatus(c.when, status) {
			return c.verdict, true
		}
	}
	return verdict{}, false
}

// normal makes NOT_FOUND, not_found and NotFoundError one word.
func normal(code string) string {
	if len(code) > 128 {
		return ""
	}
	b := make([]byte, 0, len(code))
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, c+'a'-'A')
		case c != '_' && c != '-' && c != ' ' && c != '.':
			b = append(b, c)
		}
	}
	s := string(b)
	s = strings.TrimSuffix(s, "exception")
	return strings.TrimSuffix(s, "error")
}

// effectiveStatus is the status that the answer should have had: an error within a 200 has its own, and some
// gateways put a limit into a 400 or a 5xx.
func effectiveStatus(status int, f *fault) int {
	said := saidStatus(f)
	switch {
	case f.inBand && said != 0:
		return said
	case f.inBand:
		return statusless
	case said == 429 && (status == 400 || status == 500 || status == 502):
		return 429
	case said == 529 && status >= 500:
		return 529
	}
	return status
}

// statusless is an error within a 2xx that names no status of its own.
const statusless = 0

func saidStatus(f *fault) int {
	if f.num >= 400 && f.num < 600 {
		return f.num
	}
	for _, w := range f.words() {
		if n, err := strconv.Atoi(w); err == nil && n >= 400 && n < 600 {
			return n
		}
		if c, ok := codes[normal(w)]; ok && c.status != 0 {
			return c.status
		}
	}
	return 0
}

// inStatus: when is a list of statuses; 5 stands for any 5xx, 4 for any 4xx, an empty list for all. An error
// that names no status may be any of them.
func inStatus(when []int, status int) bool {
	if len(when) == 0 || status == statusless {
		return true
	}
	for _, w := range when {
		if w == status || w == status/100 {
			return true
		}
	}
	return false
}

func byStatus(status int) verdict {
	if v, ok := statuses[status]; ok {
		return v
	}
	switch {
	case status == statusless:
		return verdict{ServerError, "", processed}
	case status < 400:
		return verdict{InvalidRequest, "", review} // a redirect: following it turns a POST into a GET
	case status < 500:
		return verdict{InvalidRequest, "", 0}
	}
	return verdict{ServerError, "", processed} // RFC 9110 15.6: an unknown 5xx is a 500
}

// statuses by RFC 9110 and its neighbours; 52x by Cloudflare's documentation of its error pages.
var statuses = map[int]verdict{
	401: {Auth, "", 0},
	402: {QuotaExhausted, Spend, 0},
	403: {Permission, "", 0},
	404: {NotFound, "", 0},
	407: {Auth, "", 0},
	408: {Timeout, "", 0}, // RFC 9110 15.5.9: the request did not arrive in full (but see ranOut)
	409: {ServerError, "", 0},
	410: {NotFound, "", 0},
	413: {TooLarge, "", 0},
	421: {Connection, "", 0}, // RFC 9110 15.5.20: may be retried over another connection
	423: {ServerError, "", 0},
	424: {ServerError, "", processed}, // Bedrock: the model failed
	425: {ServerError, "", 0},         // RFC 8470 5.2: not processed
	429: {RateLimited, "", 0},
	451: {Permission, "", 0},
	499: {Unknown, "", processed}, // Google's CANCELLED
	501: {InvalidRequest, "", 0},
	503: {Overloaded, "", 0},
	504: {Timeout, "", processed},
	505: {InvalidRequest, "", 0},
	511: {Auth, "", 0},
	521: {Connection, "", 0}, // the origin refused the connection
	522: {Connection, "", 0}, // no TCP handshake
	523: {Connection, "", 0}, // no route to the origin
	524: {Timeout, "", processed},
	525: {Connection, "", 0}, // TLS with the origin failed
	526: {Connection, "", 0}, // its certificate is invalid
	529: {Overloaded, "", 0},
	530: {Connection, "", 0}, // the origin's name did not resolve
	598: {Timeout, "", processed},
}

package policy

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	maxText     = 64 << 10
	maxDuration = 10 * 365 * 24 * time.Hour
	maxSize     = 1 << 50
)

// setScalar parses text into v by its type and checks it. What is wrong comes back with what to write instead, both
// empty when nothing is.
func setScalar(v reflect.Value, f *field, text string, plain bool) (what, remedy string) {
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		if what, remedy = setScalar(p.Elem(), f, text, plain); what == "" {
			v.Set(p)
		}
		return what, remedy
	}
	if len(text) > maxText {
		return fmt.Sprintf("is %d bytes long", len(text)), fmt.Sprintf("write at most %d", maxText)
	}
	// A value that is refused leaves the default in place, so that no later check stumbles over it again.
	set := reflect.New(v.Type()).Elem()
	if what, remedy = assign(set, f, text, plain); what != "" {
		return what, remedy
	}
	if what, remedy = f.check(set, text); what == "" {
		v.Set(set)
	}
	return what, remedy
}

func assign(v reflect.Value, f *field, text string, plain bool) (what, remedy string) {
	switch {
	case v.Type() == secretType:
		v.Set(reflect.ValueOf(NewSecret(text)))
	case v.Type() == dsnType:
		v.Set(reflect.ValueOf(NewDSN(text)))
	case v.Type() == exprType:
		return assignExpr(v, text)
	case v.Type() == durationType && f.needs("ms"):
		n, what, remedy := parseInt(text, plain)
		if what == "" && n > maxDuration.Milliseconds() {
			return text + " is too long", "write milliseconds, at most ten years"
		}
		v.SetInt(n * int64(time.Millisecond))
		return what, remedy
	case v.Type() == durationType:
		d, what, remedy := parseDuration(text)
		v.SetInt(int64(d))
		return what, remedy
	case v.Kind() == reflect.String:
		return assignText(v, f, text, plain)
	case v.Kind() == reflect.Bool:
		return assignBool(v, text, plain)
	case v.Kind() == reflect.Float64:
		x, what, remedy := parseFloat(text, plain)
		v.SetFloat(x)
		return what, remedy
	case f.needs("size"):
		n, what, remedy := parseSize(text, plain)
		v.SetInt(n)
		return what, remedy
	default:
		n, what, remedy := parseInt(text, plain)
		if what == "" && n > math.MaxInt32 && v.Kind() == reflect.Int {
			return text + " is too large", "write at most " + strconv.Itoa(math.MaxInt32)
		}
		v.SetInt(n)
		return what, remedy
	}
	return "", ""
}

func assignExpr(v reflect.Value, text string) (what, remedy string) {
	e, err := CompileExpr(text)
	if err != nil {
		return "does not compile: " + firstLine(strings.TrimPrefix(err.Error(), "policy: ")),
			`write a condition over status, body, result and headers, e.g. "len(body.items) > 0"`
	}
	v.Set(reflect.ValueOf(e))
	return "", ""
}

func assignText(v reflect.Value, f *field, text string, plain bool) (what, remedy string) {
	if plain && f.enum == nil {
		switch {
		case isBool(text):
			return "is the boolean " + text + ", not text", `write it in quotes: "` + text + `"`
		case octalLike.MatchString(text):
			return text + " looks like an octal number", `write it in quotes: "` + text + `"`
		}
	}
	v.SetString(text)
	return "", ""
}

var (
	intForm    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	floatForm  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	octalLike  = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	numberLike = regexp.MustCompile(`^[-+]?(0[xob])?[0-9a-fA-F_]*[0-9][0-9a-fA-F_.,]*(e[-+]?[0-9]+)?$`)
	sizeForm   = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(B|[KMGT]i?B)$`)
	spanForm   = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|us|µs|s|m|h|d))+$`)
	spanPart   = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(ms|us|µs|s|m|h|d)`)
)

func isBool(text string) bool {
	switch strings.ToLower(text) {
	case "true", "false":
		return true
	}
	return false
}

func assignBool(v reflect.Value, text string, plain bool) (what, remedy string) {
	switch {
	case plain && (text == "true" || text == "false"):
		v.SetBool(text == "true")
		return "", ""
	case isBool(text) || text == "yes" || text == "on":
		return quote(text) + " is not a boolean", "write " + strconv.FormatBool(!strings.EqualFold(text, "false")) + ", without quotes"
	case text == "no" || text == "off":
		return quote(text) + " is not a boolean", "write false"
	}
	return quote(text) + " is not a boolean", "write true or false"
}

func parseInt(text string, plain bool) (n int64, what, remedy string) {
	switch {
	case octalLike.MatchString(text):
		trimmed := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0_")
		return 0, text + " looks like an octal number", "write " + orZero(trimmed)
	case !intForm.MatchString(text):
		return 0, quote(text) + " is not a whole number", "write digits only, e.g. 30"
	case !plain:
		return 0, quote(text) + " is text, not a number", "write " + text + " without quotes"
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, text + " is too large", "write a smaller number"
	}
	return n, "", ""
}

func parseFloat(text string, plain bool) (x float64, what, remedy string) {
	switch {
	case octalLike.MatchString(text):
		return 0, text + " looks like an octal number", "write " + orZero(strings.TrimLeft(text, "+-0_"))
	case !floatForm.MatchString(text):
		return 0, quote(text) + " is not a number", "write a decimal number, e.g. 0.2"
	case !plain:
		return 0, quote(text) + " is text, not a number", "write " + text + " without quotes"
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, text + " is too large", "write a smaller number"
	}
	return x, "", ""
}

// parseDuration reads 300ms, 5s, 1h30m, 30d. A number alone has no unit and is refused, but for 0.
func parseDuration(text string) (d time.Duration, what, remedy string) {
	if text == "0" {
		return 0, "", ""
	}
	if !spanForm.MatchString(text) {
		if numberLike.MatchString(text) {
			return 0, quote(text) + " has no unit", "write e.g. " + orZero(strings.TrimLeft(text, "-+0_")) + "s, or another of ms, m, h, d"
		}
		return 0, quote(text) + " is not a duration", "write a number and ms, s, m, h or d, e.g. 300ms, 5s, 24h"
	}
	var total float64
	for _, part := range spanPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, quote(text) + " is not a duration", "write e.g. 30s"
		}
		total += n * float64(spanUnit(part[2]))
	}
	if total > float64(maxDuration) {
		return 0, quote(text) + " is too long", "write at most 3650d"
	}
	return time.Duration(math.Round(total)), "", ""
}

func spanUnit(unit string) time.Duration {
	switch unit {
	case "d":
		return 24 * time.Hour
	case "h":
		return time.Hour
	case "m":
		return time.Minute
	case "s":
		return time.Second
	case "ms":
		return time.Millisecond
	}
	return time.Microsecond
}

// parseSize reads an integer number of bytes, or 64MiB, 10GiB, 1.5MB.
func parseSize(text string, plain bool) (n int64, what, remedy string) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		n, what, remedy = parseInt(text, plain)
		if what != "" && !octalLike.MatchString(text) {
			return 0, quote(text) + " is not a size", "write bytes as an integer, or e.g. 64MiB"
		}
	} else {
		x, ok := new(big.Rat).SetString(m[1])
		if !ok || len(m[1]) > 32 {
			return 0, quote(text) + " is not a size", "write e.g. 64MiB"
		}
		x.Mul(x, new(big.Rat).SetInt64(sizeUnit(m[2])))
		f, _ := x.Float64()
		if f > maxSize {
			return 0, quote(text) + " is too large", "write at most 1024TiB"
		}
		n = int64(f)
	}
	if what == "" && n > maxSize {
		return 0, quote(text) + " is too large", "write at most 1024TiB"
	}
	return n, what, remedy
}

func sizeUnit(unit string) int64 {
	base := int64(1000)
	if strings.Contains(unit, "i") {
		base = 1024
	}
	n := int64(1)
	for range strings.IndexByte("BKMGT", unit[0]) {
		n *= base
	}
	return n
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// quote shows a value in a fault, shortened and with control characters escaped.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}

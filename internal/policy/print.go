package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Print is the effective configuration as YAML that loads again to an equal one: policy files are written out inline,
// references stay references, and a secret that stood in the file becomes "[redacted]".
func (c *Config) Print() []byte {
	p := &printer{raw: c.source.raw}
	p.fields(reflect.ValueOf(c).Elem(), "", 0)
	return p.out.Bytes()
}

type printer struct {
	out bytes.Buffer
	raw map[string]string
}

func (p *printer) line(indent int, format string, args ...any) {
	p.out.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(&p.out, format, args...)
	p.out.WriteByte('\n')
}

func (p *printer) fields(v reflect.Value, path string, indent int) {
	for _, f := range fieldsOf(v.Type()) {
		// Policies are left out: what they name is printed among the workflows.
		if f.alias || path == "" && f.name == "policies" {
			continue
		}
		p.field(&f, v.FieldByIndex(f.index), join(path, f.name), indent)
	}
}

func (p *printer) field(f *field, v reflect.Value, path string, indent int) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	} else if leftOut(f, v) {
		if _, ok := p.raw[path]; !ok {
			return
		}
	}
	switch {
	case v.Type() == conditionsType:
		p.line(indent, "%s: [%s]", f.name, conditionText(v.Interface().(Conditions)))
	case isScalar(v.Type()):
		p.line(indent, "%s: %s", f.name, p.scalar(f, v, path))
	case f.mapped:
		p.named(f, v, path, indent)
	case v.Kind() == reflect.Slice:
		p.list(f, v, path, indent)
	case v.NumField() == 0:
	default:
		at := p.out.Len()
		p.line(indent, "%s:", f.name)
		empty := p.out.Len()
		p.fields(v, path, indent+1)
		if p.out.Len() == empty {
			p.out.Truncate(at)
		}
	}
}

// leftOut reports whether a value says nothing: an empty one whose field has no default of its own.
func leftOut(f *field, v reflect.Value) bool {
	switch {
	case f.def != "" || v.Kind() == reflect.Bool || v.Kind() == reflect.Struct && !isScalar(v.Type()) && v.Type() != conditionsType:
		return false
	case v.Kind() == reflect.Slice:
		return v.Len() == 0
	case v.Type() == conditionsType:
		return v.Interface().(Conditions).IsZero()
	}
	return v.IsZero()
}

func (p *printer) named(f *field, v reflect.Value, path string, indent int) {
	p.line(indent, "%s:", f.name)
	for i := range v.Len() {
		e := v.Index(i)
		name := e.Field(0).String()
		at := join(path, name)
		if vf := valueField(e.Type()); vf != nil {
			p.line(indent+1, "%s: %s", text(name), p.scalar(vf, e.FieldByIndex(vf.index), at))
			continue
		}
		p.line(indent+1, "%s:", text(name))
		p.fields(e, at, indent+2)
	}
}

func (p *printer) list(f *field, v reflect.Value, path string, indent int) {
	if v.Len() > 0 && !isScalar(v.Type().Elem()) {
		p.line(indent, "%s:", f.name)
		for i := range v.Len() {
			at := p.out.Len()
			p.fields(v.Index(i), item(path, i), indent+2)
			p.hyphen(at, indent+1)
		}
		return
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = p.scalar(f, v.Index(i), item(path, i))
		if f.one {
			if raw, ok := p.raw[path]; ok && len(items) == 1 {
				items[i] = p.reference(v.Index(i), raw)
			}
		}
	}
	p.line(indent, "%s: [%s]", f.name, strings.Join(items, ", "))
}

// hyphen turns the indentation of an item's first line into its hyphen.
func (p *printer) hyphen(at, indent int) {
	b := p.out.Bytes()
	if at+2*indent < len(b) {
		b[at+2*indent] = '-'
	} else {
		p.line(indent, "- {}")
	}
}

func conditionText(c Conditions) string {
	var items []string
	for _, s := range c.Statuses {
		items = append(items, strconv.Itoa(s))
	}
	for _, s := range c.Not {
		items = append(items, text("!"+strconv.Itoa(s)))
	}
	for _, e := range c.Exprs {
		items = append(items, text(e.Source))
	}
	return strings.Join(items, ", ")
}

func (p *printer) scalar(f *field, v reflect.Value, path string) string {
	if raw, ok := p.raw[path]; ok {
		return p.reference(v, raw)
	}
	switch x := v.Interface().(type) {
	case Secret:
		return text(x.String())
	case DSN:
		return text(x.String())
	case Expr:
		return text(x.Source)
	case time.Duration:
		if f.needs("ms") {
			return strconv.FormatInt(x.Milliseconds(), 10)
		}
		return Span(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	switch {
	case v.Kind() == reflect.String:
		return text(v.String())
	case f.needs("size"):
		return formatSize(v.Int())
	}
	return fmt.Sprint(v.Interface())
}

var (
	referenceForm = regexp.MustCompile(`\$\{[^}]*\}`)
	passwordForm  = regexp.MustCompile(`://[^/@]*:([^@]*)@`)
)

// reference shows a value as it was written, unless a secret stands beside its references.
func (p *printer) reference(v reflect.Value, raw string) string {
	hidden := false
	switch v.Type() {
	case secretType:
		rest := strings.TrimSpace(referenceForm.ReplaceAllString(raw, ""))
		hidden = !slices.Contains([]string{"", "Bearer", "Basic", "Token"}, rest)
	case dsnType:
		m := passwordForm.FindStringSubmatch(raw)
		hidden = m != nil && referenceForm.ReplaceAllString(m[1], "") != ""
	}
	if hidden {
		return text(redacted)
	}
	return text(raw)
}

var plainForm = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)

// text writes a string so that it reads back as the same string.
func text(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan":
		return strconv.Quote(s)
	}
	if plainForm.MatchString(s) {
		return s
	}
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	// JSON's HTML escapes are valid YAML too, but nobody wants to read them.
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// Span writes a duration as the configuration does: 300ms, 25s, 5m, 24h, 1h30m, 30d.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0s"
	case d >= 2*day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func formatSize(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	out := strconv.FormatInt(n, 10)
	for i := range units {
		if n == 0 || n%1024 != 0 {
			break
		}
		n /= 1024
		out = strconv.FormatInt(n, 10) + units[i]
	}
	return out
}

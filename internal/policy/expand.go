package policy

import (
	"regexp"
	"strings"
)

// Bounds of one expanded value and of one secret file.
const maxSecret = 64 << 10

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} and ${file:PATH} in a scalar. It runs after parsing, so that no value can add structure.
// $${ stands for ${ itself.
func (d *decoder) expand(n *node, path string) (string, bool) {
	var out strings.Builder
	ok := true
	for text := n.text; text != ""; {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			break
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			d.fault(n, path, "has a ${ that is not closed", "write ${NAME}, or $${ for the characters themselves")
			return "", false
		}
		value, found := d.reference(n, path, text[i+2:i+end])
		ok = ok && found
		if out.Len()+len(value) > maxText {
			d.fault(n, path, "expands to more than 64 KiB", "use fewer or shorter references")
			return "", false
		}
		out.WriteString(value)
		text = text[i+end+1:]
	}
	return out.String(), ok
}

func (d *decoder) reference(n *node, path, ref string) (string, bool) {
	if file, is := strings.CutPrefix(ref, "file:"); is {
		return d.secretFile(n, path, file)
	}
	if !envName.MatchString(ref) {
		d.fault(n, path, quote("${"+ref+"}")+" is not a reference", "write ${NAME} or ${file:/run/secrets/name}, or $${ for the characters themselves")
		return "", false
	}
	value, found := d.env(ref)
	if !found || value == "" {
		d.missing(n, path, "the environment variable "+ref+" is not set", "set it before serve: export "+ref+"=…")
		return "", false
	}
	return value, true
}

func (d *decoder) secretFile(n *node, path, file string) (string, bool) {
	data, err := d.readFile(file)
	switch {
	case err != nil:
		d.missing(n, path, "the file "+quote(file)+" cannot be read", "create it, readable for the user that runs serve")
	case len(data) > maxSecret:
		d.fault(n, path, "the file "+quote(file)+" is larger than 64 KiB", "name a file that holds only the secret")
	case len(strings.TrimRight(string(data), "\r\n")) == 0:
		d.missing(n, path, "the file "+quote(file)+" is empty", "write the secret into it")
	default:
		return strings.TrimRight(string(data), "\r\n"), true
	}
	return "", false
}

func (d *decoder) missing(n *node, path, what, remedy string) {
	d.report(Fault{Pos: n.pos, Path: path, Severity: Missing, What: what, Remedy: remedy})
}

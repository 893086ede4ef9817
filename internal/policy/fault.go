package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a fault keeps the configuration from being used.
type Severity uint8

const (
	// Error refuses the configuration.
	Error Severity = iota
	// Missing is a variable or secret file that is not there: check warns, serve refuses.
	Missing
	// Warning is a likely mistake, or a field that this version accepts without acting on it.
	Warning
)

// String is what a fault line says of its severity.
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Pos is a place in a file. The zero Pos is a default that stands in no file.
type Pos struct {
	File      string
	Line, Col int
}

// flag says that the place is a flag of the command line.
func (p Pos) flag() bool { return strings.HasPrefix(p.File, "--") }

// String is file:line:col, or the flag.
func (p Pos) String() string {
	switch {
	case p.File == "":
		return "(default)"
	case p.flag():
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Fault is one thing that is wrong, and what to write instead.
type Fault struct {
	Pos
	Path     string // e.g. workflows.support_chat.timeouts.total; empty for the whole file
	Severity Severity
	What     string
	Remedy   string
}

// String is "file:line:col: path: what is wrong; what to write instead"; a flag has its name in front alone.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Pos.String())
	b.WriteString(": ")
	if f.Path != "" && !f.flag() {
		b.WriteString(f.Path + ": ")
	}
	if f.Severity != Error {
		b.WriteString("warning: ")
	}
	b.WriteString(f.What)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// InFlags reports whether each of the faults is one of a flag's value, and none of a file.
func InFlags(faults []Fault) bool {
	return len(faults) > 0 && !slices.ContainsFunc(faults, func(f Fault) bool { return !f.flag() })
}

// Refused reports whether faults keep a configuration from passing check.
func Refused(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Severity == Error })
}

// Unservable reports whether faults keep a configuration from being served: what check refuses, and every variable
// or secret file that is missing. A provider whose key is missing would otherwise get the client's own credential.
func Unservable(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Severity <= Missing })
}

// maxFaults bounds a report: beyond it a file is not a configuration.
const maxFaults = 200

func sortFaults(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	faults = slices.Compact(faults)
	if len(faults) > maxFaults {
		// Errors are kept before warnings, so that a flood of the latter never hides why a file is refused.
		slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.Severity) - int(b.Severity) })
		faults = faults[:maxFaults]
	}
	return faults
}

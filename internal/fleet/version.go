package fleet

import (
	"cmp"
	"runtime/debug"
)

// module is this one, in whatever program it is built into.
const module = "github.com/holdfast-ai/holdfast"

// Version is that of this build, as an operator tells two of them apart: the module's, or the revision it was built from.
func Version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	version := ""
	if b.Main.Path == module {
		version = b.Main.Version
	}
	for _, d := range b.Deps {
		if d.Path == module {
			version = d.Version
		}
	}
	if version == "" || version == "(devel)" {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" && b.Main.Path == module {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return cmp.Or(version, "(devel)")
}

package filewatch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wanted is what counts, and the folders in which it shows. All names are real ones, without symlinks but in their last
// part: the system knows a folder by one name only.
type wanted struct {
	names []string // files, and the symlinks on the way to them
	globs []pattern
	dirs  []string
}

// pattern is a glob in one folder.
type pattern struct{ dir, base string }

func newWanted(files, globs []string) wanted {
	var w wanted
	for _, f := range files {
		w.file(f)
	}
	for _, g := range globs {
		if g, err := filepath.Abs(g); err == nil {
			w.glob(g)
		}
	}
	slices.Sort(w.dirs)
	w.dirs = slices.Compact(w.dirs)
	return w
}

// has reports whether a change of name counts: of what is wanted, or of a folder on the way to it.
func (w *wanted) has(name string) bool {
	for _, n := range w.names {
		if n == name || strings.HasPrefix(n, name+string(filepath.Separator)) {
			return true
		}
	}
	dir, base := filepath.Split(name)
	dir = filepath.Clean(dir)
	for _, p := range w.globs {
		if ok, _ := filepath.Match(p.base, base); ok && p.dir == dir {
			return true
		}
	}
	return false
}

// glob adds what may come to match a glob: files in the folders that there are, and folders.
func (w *wanted) glob(g string) {
	dir := filepath.Dir(g)
	found, _ := filepath.Glob(dir)
	for _, d := range found {
		real, err := filepath.EvalSymlinks(d)
		if err != nil {
			continue
		}
		w.file(d)
		w.folder(real)
		w.globs = append(w.globs, pattern{real, filepath.Base(g)})
	}
	switch {
	case strings.ContainsAny(dir, `*?[`) && dir != g:
		w.glob(dir)
	case len(found) == 0:
		w.file(dir)
	}
}

// maxLinks is how many symlinks lead to a file before it counts as lost in a circle.
const maxLinks = 40

// file adds a name and each symlink on the way to what it stands for.
func (w *wanted) file(name string) {
	name, err := filepath.Abs(name)
	if err != nil {
		return
	}
	for range maxLinks {
		link, target := firstLink(name)
		if target == "" {
			w.names = append(w.names, name)
			w.folder(filepath.Dir(name))
			return
		}
		w.names = append(w.names, link)
		w.folder(filepath.Dir(link))
		name = target + name[len(link):]
	}
}

// firstLink is the first part of a path that is a symlink, and the path that it stands for.
func firstLink(path string) (link, target string) {
	for i := range path {
		if i == 0 || path[i] != filepath.Separator {
			continue
		}
		if target := readLink(path[:i]); target != "" {
			return path[:i], target
		}
	}
	return path, readLink(path)
}

func readLink(path string) string {
	to, err := os.Readlink(path)
	switch {
	case err != nil:
		return ""
	case filepath.IsAbs(to):
		return filepath.Clean(to)
	}
	return filepath.Join(filepath.Dir(path), to)
}

// folder watches a folder, or as long as there is none the nearest above it.
func (w *wanted) folder(dir string) {
	for dir != filepath.Dir(dir) {
		if s, err := os.Stat(dir); err == nil && s.IsDir() {
			break
		}
		dir = filepath.Dir(dir)
	}
	w.dirs = append(w.dirs, dir)
}

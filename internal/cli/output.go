package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// clean makes text of a stranger's fit for a terminal: nothing in it moves the cursor or colours what follows. With
// max > 0 it is cut to so many characters.
func clean(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); max > 0 && len(r) > max {
		return string(r[:max-1]) + "…"
	}
	return s
}

// or is s, or a dash where there is nothing.
func or(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// table aligns the cells that write separates by tabs; no line ends in blanks.
func table(out io.Writer, write func(io.Writer)) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// span is a duration in its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// ago is how long before now t was, in words; a dash for no time.
func ago(t *time.Time, now time.Time) string {
	if t == nil {
		return "–"
	}
	if d := t.Sub(now); d > 0 {
		return "in " + span(d)
	}
	return span(now.Sub(*t)) + " ago"
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// stampAgo is a time and its distance; nothing for no time.
func stampAgo(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return stamp(*t) + " (" + ago(t, now) + ")"
}

func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// terminal reports whether somebody watches.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress counts lines on their way, and tells a person who watches.
type progress struct {
	to     io.Writer
	report io.Writer // nil: nobody watches
	lines  int
	told   time.Time
}

const tellEvery = 200 * time.Millisecond

func newProgress(to, report io.Writer) *progress {
	if !terminal(report) {
		report = nil
	}
	return &progress{to: to, report: report, told: time.Now()}
}

func (p *progress) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	p.lines += strings.Count(string(b[:n]), "\n")
	if p.report != nil && time.Since(p.told) > tellEvery {
		p.told = time.Now()
		fmt.Fprintf(p.report, "\r%s", plural(p.lines, "operation"))
	}
	return n, err
}

func (p *progress) done() {
	if p.report != nil {
		fmt.Fprintf(p.report, "\r%s\n", plural(p.lines, "operation"))
	}
}

// follow says on a terminal how far something is, over and over in one line, and elsewhere a line every few seconds. The
// function that it returns ends it.
func follow(w io.Writer, say func() string) (end func()) {
	every, watched := progressEvery, terminal(w)
	if watched {
		every = tellEvery
	}
	done, said := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(said)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				if watched {
					_, _ = fmt.Fprintf(w, "\r%s\n", say())
				}
				return
			case <-ticker.C:
				if watched {
					_, _ = fmt.Fprintf(w, "\r%s", say())
				} else {
					_, _ = fmt.Fprintln(w, say())
				}
			}
		}
	}()
	return func() {
		close(done)
		<-said
	}
}

// wanted says of a file that cannot be opened what it is to be.
func wanted(what string, err error) error {
	var path *os.PathError
	if errors.As(err, &path) && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no file %s; %s", path.Path, what)
	}
	return fmt.Errorf("%w; %s", err, what)
}

// replaceFile writes a file beside path and puts it there when it is complete. It is for its owner alone.
func replaceFile(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeThrough(path, write) // a pipe or a device has no other version
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

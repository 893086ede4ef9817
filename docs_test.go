package holdfast

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pages are the documents that users read, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found[name] = readFile(t, name)
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d documents found", len(found))
	}
	return found
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fences are code blocks, which have no links and no headings.
var fences = regexp.MustCompile("(?ms)^```.*?^```")

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	unlinked = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are the names under which a page's headings are reached.
func anchors(text string) []string {
	var out []string
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		name := unlinked.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(readFile(t, target)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
}

// TestDocumentsAreReached keeps a page from being written and never found.
func TestDocumentsAreReached(t *testing.T) {
	index := readFile(t, "docs/index.md")
	for name := range pages(t) {
		if rel, ok := strings.CutPrefix(name, "docs/"); ok && rel != "index.md" && !strings.Contains(index, "("+rel+")") {
			t.Errorf("docs/index.md does not link to %s", rel)
		}
	}
}

// program is holdfast, built once for the tests that run it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-docs-")
	if err != nil {
		return "", err
	}
	built := filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", built, "./cmd/holdfast").CombinedOutput(); err != nil {
		return "", &buildError{string(out), err}
	}
	return built, nil
})

type buildError struct {
	output string
	err    error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.output }

func TestMain(m *testing.M) {
	if file := os.Getenv(orderFile); file != "" {
		serveOrders(file) // this process is an MCP server
		return
	}
	code := m.Run()
	if built, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

func holdfastProgram(t *testing.T) string {
	t.Helper()
	built, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

var (
	spans    = regexp.MustCompile("`([^`\n]+)`")
	commands = regexp.MustCompile(`(?m)^[\s(]*(?:go run \./cmd/holdfast|holdfast) ([a-z][^\n|#<>&;]*)`)
	flagName = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// TestDocumentsNameCommandsThatExist looks at each command line in a code block or a code span, with its flags.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	help := map[string]string{}
	seen := 0
	for name, text := range pages(t) {
		lines := strings.Join(fences.FindAllString(text, -1), "\n")
		for _, m := range spans.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			lines += "\n" + m[1]
		}
		for _, m := range commands.FindAllStringSubmatch(strings.ReplaceAll(lines, "\\\n", " "), -1) {
			seen++
			checkCommand(t, name, m[1], help)
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands found in the documents", seen)
	}
}

// checkCommand asks the program's own help for the command that line names.
func checkCommand(t *testing.T, page, line string, help map[string]string) {
	t.Helper()
	words := strings.Fields(line)
	var path []string
	for _, w := range words {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(w) || len(path) == 2 {
			break
		}
		path = append(path, w)
	}
	text := ""
	for ; len(path) > 0; path = path[:len(path)-1] { // the last word may be an argument
		text = commandHelp(t, strings.Join(path, " "), help)
		if text != "" {
			break
		}
	}
	if text == "" {
		t.Errorf("%s: there is no command: holdfast %s", page, line)
		return
	}
	if len(words) > len(path) && strings.Contains(text, "Available Commands:") && regexp.MustCompile(`^[a-z]+$`).MatchString(words[len(path)]) {
		t.Errorf("%s: holdfast %s has no command %q", page, strings.Join(path, " "), words[len(path)])
	}
	for _, flag := range flagName.FindAllString(line, -1) {
		if !regexp.MustCompile(regexp.QuoteMeta(flag) + `\b`).MatchString(text) {
			t.Errorf("%s: holdfast %s has no flag %s", page, strings.Join(path, " "), flag)
		}
	}
}

func commandHelp(t *testing.T, path string, help map[string]string) string {
	t.Helper()
	text, ok := help[path]
	if ok {
		return text
	}
	out, err := exec.Command(holdfastProgram(t), append(strings.Fields(path), "--help")...).CombinedOutput()
	// Help for a name that is no command is that of its parent.
	if err == nil && regexp.MustCompile(`(?m)^Usage:\n  holdfast `+regexp.QuoteMeta(path)+`\b`).Match(out) {
		text = string(out)
	}
	help[path] = text
	return text
}

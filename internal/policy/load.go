package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// loader reads files. Its functions are replaced where no file may be touched.
type loader struct {
	read     []string // names of files, as they were opened
	env      func(string) (string, bool)
	readFile func(string) ([]byte, error)
	glob     func(string) ([]string, error)
}

// Load reads a configuration, or a single policy file, with the files that it names. env looks variables up, usually
// os.LookupEnv. The config is nil exactly when Refused(faults); faults are sorted by file and line.
func Load(path string, env func(string) (string, bool)) (*Config, []Fault) {
	l := newLoader(env)
	data, err := l.readFile(path)
	if err != nil {
		return nil, []Fault{{Pos: Pos{path, 1, 1}, What: "cannot be read: " + plainError(err), Remedy: "name an existing file"}}
	}
	return l.load(path, data)
}

// Parse is Load for a configuration that is already in memory; name stands for it in faults, and policies are
// looked for beside it.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, []Fault) {
	return newLoader(env).load(name, data)
}

func newLoader(env func(string) (string, bool)) *loader {
	l := &loader{env: env, glob: filepath.Glob}
	l.readFile = func(name string) ([]byte, error) {
		l.read = append(l.read, name)
		return readBounded(name)
	}
	return l
}

// Default is the configuration of serve without a file: an embedded store in ./holdfast.db and three providers, whose
// keys are those in the environment, if there are any.
func Default(env func(string) (string, bool)) *Config {
	c := newConfig()
	c.finish(env)
	return c
}

// readBounded reads one file and never more than is ever accepted of one.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// plainError is an I/O error without the path, which the fault has already.
func plainError(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func newConfig() *Config {
	c := &Config{source: source{pos: map[string]Pos{}, raw: map[string]string{}}}
	setDefaults(reflect.ValueOf(c).Elem())
	return c
}

func (l *loader) load(path string, data []byte) (*Config, []Fault) {
	c := newConfig()
	d := &decoder{env: l.env, source: c.source, readFile: l.beside(path)}
	root, faults := readYAML(path, data)
	d.faults = append(d.faults, faults...)
	switch {
	case root == nil || root.kind == null:
	case isPolicy(root):
		c.partial = true
		l.policy(d, c, root)
	default:
		d.structure(root, reflect.ValueOf(c).Elem(), "")
		l.policies(d, c, filepath.Dir(path))
	}
	if len(l.read) > 0 && l.read[0] == path { // else it came from memory
		c.source.files = l.read
	}
	if root != nil {
		c.finish(l.env)
		c.read = slices.Clone(d.faults)
		d.addNew(c.check(d.faults))
	}
	faults = sortFaults(d.faults)
	if Refused(faults) {
		return nil, faults
	}
	return c, faults
}

// beside resolves relative names against the folder of the file that names them.
func (l *loader) beside(path string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return l.readFile(name)
	}
}

// isPolicy recognises the form of a policy file (interface.md §5).
func isPolicy(root *node) bool {
	return slices.ContainsFunc(root.keys, func(k key) bool { return k.name == "workflow" || k.name == "ai_api_queueing_strategy" })
}

// policy reads a policy file: "workflow: NAME" and that workflow's fields beside it.
func (l *loader) policy(d *decoder, c *Config, root *node) {
	at := slices.IndexFunc(root.keys, func(k key) bool { return k.name == "workflow" })
	if root.kind != mapping || at < 0 {
		d.fault(root, "workflow", "a policy file names its workflow", "write workflow: NAME at the top")
		return
	}
	name := root.items[at]
	if name.kind != scalar {
		d.fault(name, "workflow", "is "+name.kind.String()+", not a name", "write workflow: NAME")
		return
	}
	if what, remedy := checkName("name", name.text); what != "" {
		d.fault(name, "workflow", what, remedy)
		return
	}
	path := join("workflows", name.text)
	if first, dup := d.source.pos[path]; dup {
		d.fault(name, path, "is configured already in "+first.String(), "keep one of the two, or rename one")
		return
	}
	d.source.pos[path] = root.keys[at].pos
	w := Workflow{Name: name.text}
	setDefaults(reflect.ValueOf(&w).Elem())
	d.structure(root, reflect.ValueOf(&w).Elem(), path, "workflow")
	c.Workflows = append(c.Workflows, w)
}

const maxPolicies = 1000

// policies reads the files that the globs name, in the order of their names.
func (l *loader) policies(d *decoder, c *Config, dir string) {
	seen := map[string]bool{}
	for i, pattern := range c.Policies {
		at := &node{pos: d.source.pos[item("policies", i)]}
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(dir, pattern)
		}
		files, err := l.glob(pattern)
		slices.Sort(files)
		switch {
		case err != nil:
			d.fault(at, item("policies", i), "is not a glob", "write e.g. policies/*.yaml")
			continue
		case len(files) == 0:
			d.report(Fault{Pos: at.pos, Path: item("policies", i), Severity: Warning, What: "matches no file", Remedy: "correct the glob; it is relative to this file"})
		case len(seen)+len(files) > maxPolicies:
			d.fault(at, item("policies", i), "matches more than 1000 files", "narrow the glob")
			continue
		}
		for _, file := range files {
			if !seen[file] {
				seen[file] = true
				l.policyFile(d, c, file)
			}
		}
	}
}

func (l *loader) policyFile(d *decoder, c *Config, file string) {
	data, err := l.readFile(file)
	if err != nil {
		d.report(Fault{Pos: Pos{file, 1, 1}, What: "cannot be read: " + plainError(err), Remedy: "make it readable, or narrow policies"})
		return
	}
	root, faults := readYAML(file, data)
	for _, f := range faults {
		d.report(f)
	}
	if root == nil {
		return
	}
	d.readFile = l.beside(file)
	l.policy(d, c, root)
}

// finish applies what follows from other fields, compiles, and stamps the revision.
func (c *Config) finish(env func(string) (string, bool)) {
	c.defaultProviders(env)
	for i := range c.Store {
		c.Store[i] = storeDSN(c.Store[i].Reveal())
	}
	c.placeDefault()
	c.index = make(map[string]int, len(c.Workflows))
	for i := range c.Workflows {
		c.Workflows[i].resolve(c)
		c.index[c.Workflows[i].Name] = i
	}
	for i := range c.Tools {
		c.Tools[i].resolve()
	}
	for i := range c.MCP.Servers {
		c.MCP.Servers[i].resolve()
	}
	c.stamp()
}

func (c *Config) stamp() {
	sum := sha256.Sum256(c.Print())
	c.Revision = hex.EncodeToString(sum[:8])
}

// defaultBase is what each SDK takes as its base URL.
func defaultBase(typ string) string {
	switch typ {
	case TypeOpenAI:
		return "https://api.openai.com/v1"
	case TypeAnthropic:
		return "https://api.anthropic.com"
	case TypeGemini:
		return "https://generativelanguage.googleapis.com"
	}
	return ""
}

// defaultProviders fills in the three public APIs where no providers are written, and what a provider's name and type
// already say.
func (c *Config) defaultProviders(env func(string) (string, bool)) {
	if !c.Written("providers") {
		for _, typ := range []string{TypeOpenAI, TypeAnthropic, TypeGemini} {
			p := Provider{Name: typ, Type: typ}
			variable := strings.ToUpper(typ) + "_API_KEY"
			if key, ok := env(variable); ok && key != "" {
				p.APIKey = NewSecret(key)
				c.source.raw["providers."+typ+".api_key"] = "${" + variable + "}"
			}
			c.Providers = append(c.Providers, p)
		}
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		if p.Type == "" && defaultBase(p.Name) != "" {
			p.Type = p.Name
		}
		if p.BaseURL == "" {
			p.BaseURL = defaultBase(p.Type)
		}
	}
}

// placeDefault moves the default workflow to the end, or adds it.
func (c *Config) placeDefault() {
	at := slices.IndexFunc(c.Workflows, func(w Workflow) bool { return w.Name == DefaultWorkflow })
	if at < 0 {
		w := Workflow{Name: DefaultWorkflow}
		setDefaults(reflect.ValueOf(&w).Elem())
		c.Workflows = append(c.Workflows, w)
		return
	}
	w := c.Workflows[at]
	c.Workflows = append(slices.Delete(c.Workflows, at, at+1), w)
}

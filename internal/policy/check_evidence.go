package policy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
)

// operation is what a reconciler is for, as far as its checks need it.
type operation struct {
	place   reconcilePlace
	key     string // its key template
	timeout time.Duration
	effect  Effect
	unknown OnUnknown // what most of its unknown outcomes lead to
	path    string
}

// operation is what a route's or a tool's reconciler is for. A route for GET reads, unless it says otherwise (see Config.Call).
func (p *CallPolicy) operation(path string, place reconcilePlace, reads bool) operation {
	o := operation{place: place, key: p.Key, timeout: p.Timeout, effect: p.Effect, unknown: p.OnUnknown, path: path}
	if reads {
		o.effect = Read
	}
	return o
}

// doubts looks for what makes evidence of no use, or of less than it seems.
func (k *checker) doubts(path string, r *Reconcile, o operation) {
	k.asked(path, r, o)
	if r.SQL != "" {
		k.placeholders(path, r)
		k.always(path, r)
		k.ownStore(path, r.DSN)
	}
	if k.c.Written(path+".quiet") && r.Quiet < 2*o.timeout {
		k.warn(path+".quiet", fmt.Sprintf("%s is less than twice the time-out of %s: a slow effect may come after its absence was believed", Span(r.Quiet), Span(o.timeout)),
			"leave it out, or write at least "+Span(2*o.timeout))
	}
	if r.Attempts == 1 {
		k.warn(path+".attempts", "a single check never shows that there is no effect: a second read must agree", "write at least 3")
	}
}

// meaning says where nothing ever asks.
func (k *checker) meaning(path string, r *Reconcile, o operation) {
	const hold = "write on_unknown: hold, or remove reconcile"
	switch {
	case o.effect == Read:
		k.fail(path, "is never used: a call that only reads has no effect to look for", "remove it, or write effect: external if the call changes something")
	case o.unknown != RetryUnknown:
	case o.place != reconcileWorkflow || k.c.Written(o.path+".on_unknown"):
		k.warn(path, "is never used: what is unknown is tried again", hold)
	case o.effect == Generation || r.OpenAIResponse:
		k.warn(path, "is used of requests alone that make the provider act: what else is unknown is tried again", hold)
	}
}

// expression holds that an expression can say one thing and the other.
func (k *checker) expression(path string, r *Reconcile, e Expr) {
	if e.IsZero() {
		return
	}
	reads := e.readsAny
	looked := append(statuses(200, 299), 404, 409, 410) // of any other nothing is read
	const example = `write e.g. "len(body.items) > 0"`
	switch {
	case !reads("status", "body", "result", "headers"):
		k.fail(path, quote(e.Source)+" reads nothing of the answer, so that it says the same whatever was found", example)
	case r.Get != "" && e.ofStatus() && (e.fits(looked) == 0 || e.fits(looked) == len(looked)):
		k.fail(path, quote(e.Source)+" says the same of each status that is looked at: 2xx, 404, 409 and 410", `write e.g. "status == 200"`)
	case (r.SQL != "" || r.Tool != "") && reads("status", "headers"):
		k.fail(path, "reads status or headers, which only a get has", `write a condition over result, e.g. "len(result) > 0"`)
	case strings.HasPrefix(r.Get, "HEAD ") && reads("body", "result"):
		k.fail(path, "reads a body, and the answer to HEAD has none", `write "GET …", or a condition over status`)
	case !e.certain():
		k.warn(path, quote(e.Source)+" is no comparison: nothing can be told where it is neither true nor false", "write what it is compared with, e.g. == true, or > 0")
	}
}

// certain says that the expression is true or false whatever the answer is.
func (e Expr) certain() bool {
	t := e.program.Node().Type()
	return t != nil && t.Kind() == reflect.Bool
}

// asked holds that a read asks for the operation, and for all that makes it what it is.
func (k *checker) asked(path string, r *Reconcile, o operation) {
	at, used := path, []string{}
	switch {
	case r.Get != "":
		at = path + ".get"
		used, _ = templateFields(r.Get)
	case r.SQL != "" || r.Tool != "":
		at = path + ".arguments"
		if r.SQL != "" && len(r.Arguments) == 0 {
			used = []string{"key"}
		}
		for _, a := range r.Arguments {
			fields, _ := templateFields(a.Value)
			used = append(used, fields...)
		}
	default:
		return
	}
	if r.Tool != "" && len(r.Arguments) == 0 {
		at = path + ".tool"
	}
	of, _ := templateFields(o.key)
	missing := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(of))), func(f string) bool { return slices.Contains(used, f) })
	kept := k.c.Retention.RequestBodies != "none" || k.c.partial || o.place == reconcileWorkflow
	other := slices.IndexFunc(used, func(f string) bool { return f != "key" })
	switch {
	case other >= 0 && !kept:
		k.fail(at, "needs {"+used[other]+"} of the request, which is not kept (retention.request_bodies: none)", "remove request_bodies, or ask for {key} alone, where there is one")
	case slices.Contains(used, "key"):
	case len(used) == 0:
		k.warn(at, "asks the same whatever was called: another operation's record would prove this one", "ask for "+wanted(of, o.place))
	case len(missing) > 0:
		k.warn(at, "does not ask for "+strings.Join(missing, ", ")+", which the key is made of: another operation's record would prove this one",
			"ask for "+wanted(of, o.place))
	}
}

// wanted is what a read should ask for.
func wanted(key []string, place reconcilePlace) string {
	fields := make([]string, len(key))
	for i, f := range key {
		fields[i] = "{" + f + "}"
	}
	switch {
	case place != reconcileMCP && len(key) > 0:
		return "{key}, or for " + strings.Join(fields, ", ")
	case place != reconcileMCP:
		return "{key}"
	case len(key) > 0:
		return strings.Join(fields, ", ")
	}
	return `the call's own arguments, e.g. "{customer_id}"`
}

// placeholders holds that each $n has a value, and each value its $n: a database refuses a query otherwise.
func (k *checker) placeholders(path string, r *Reconcile) {
	numbers, values := r.Placeholders(), max(len(r.Arguments), 1)
	if len(numbers) == 0 {
		k.warn(path+".sql", "has no $1: it asks the same whatever was called, and another operation's record would prove this one", "write e.g. WHERE ref = $1")
		return
	}
	if last := numbers[len(numbers)-1]; last > values {
		k.fail(path+".sql", fmt.Sprintf("$%d has no value", last), fmt.Sprintf("write arguments: the one in place %d is its value; without arguments $1 is the key", last))
	}
	for i, a := range r.Arguments {
		if !slices.Contains(numbers, i+1) {
			k.fail(join(path+".arguments", a.Name), fmt.Sprintf("is $%d, which sql does not use", i+1), "use it, or remove it")
		}
	}
}

// always recognises a query that gives a row whatever there is, with a condition that this row fits, or that looks for the row alone.
func (k *checker) always(path string, r *Reconcile) {
	row := emptyRow(r.SQL, r.postgres())
	if !row.always {
		return
	}
	const instead = `write "SELECT count(*) AS n …" and happened: "result[0].n > 0"`
	for _, e := range []struct {
		name string
		Expr
	}{{"happened", r.Happened}, {"not_happened", r.NotHappened}} {
		if !row.more && e.countsRows() {
			k.fail(path+"."+e.name, quote(e.Source)+" counts rows, and the query gives one whatever there is (an aggregate without GROUP BY, or no FROM)", instead)
			return
		}
	}
	if !r.Happened.IsZero() && (row.fits(r.Happened, 0) || row.fits(r.Happened, 1)) {
		k.fail(path+".happened", quote(r.Happened.Source)+" fits when nothing was found: the query gives one row whatever there is", instead)
	}
}

// countsRows says that an expression looks at the number of rows alone.
func (e Expr) countsRows() bool {
	if e.program == nil {
		return false
	}
	var found rowCount
	node := e.program.Node()
	ast.Walk(&node, &found)
	return found.counts && !found.reads
}

type rowCount struct{ counts, reads bool }

// Visit implements ast.Visitor.
func (r *rowCount) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if n.Name != "len" || len(n.Arguments) != 1 {
			r.reads = true // what it is given may be a row
			return
		}
		id, ok := n.Arguments[0].(*ast.IdentifierNode)
		r.counts = r.counts || ok && (id.Value == "result" || id.Value == "body")
	case *ast.MemberNode, *ast.PredicateNode:
		r.reads = true
	}
}

// fits says that an expression fits the row that the query gives of nothing. A truth value may be two things: which is the one that is
// looked at.
func (row sqlRow) fits(e Expr, which int) bool {
	names := members{}
	node := e.program.Node()
	ast.Walk(&node, names)
	cells := map[string]any{}
	for _, c := range row.columns {
		if n := len(c.empty); n > 0 && c.name != "" {
			cells[c.name] = c.empty[min(which, n-1)]
		}
	}
	for name := range names {
		at := slices.IndexFunc(row.columns, func(c sqlColumn) bool { return strings.EqualFold(c.name, name) })
		if at < 0 { // the database may have named it so
			at = slices.IndexFunc(row.columns, func(c sqlColumn) bool { return c.name == "" })
		}
		if at >= 0 && len(row.columns[at].empty) > 0 {
			empty := row.columns[at].empty
			cells[name] = empty[min(which, len(empty)-1)]
		}
	}
	found := []any{cells}
	ok, err := e.Decide(Answer{Result: found, Body: found})
	return ok && err == nil
}

// members are the names that an expression reads of objects.
type members map[string]bool

// Visit implements ast.Visitor.
func (m members) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.MemberNode); ok {
		if name, ok := n.Property.(*ast.StringNode); ok {
			m[name.Value] = true
		}
	}
}

// ownStore refuses the log itself as evidence: what is in it says what was meant, not what was done.
func (k *checker) ownStore(path string, dsn DSN) {
	for _, s := range k.c.Store {
		if !k.c.partial && dsn.Scheme() == "sqlite" && s.Scheme() == "sqlite" && sameName(dsn.Path(), s.Path()) {
			k.fail(path+".dsn", "is Holdfast's own store, which knows nothing of the effect", "write the database of the service that acts")
		}
	}
}

func sameName(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

// CheckFiles looks at the files that reconcilers read, which is no part of loading: a database may come later. stat is usually
// os.Stat.
func (c *Config) CheckFiles(stat func(string) (fs.FileInfo, error)) []Fault {
	k := &checker{c: c}
	c.eachReconcile(func(path string, r *Reconcile) {
		if r.SQL == "" || r.DSN.Scheme() != "sqlite" {
			return
		}
		file, err := stat(r.DSN.Path())
		if err != nil {
			k.warn(path+".dsn", "there is no file "+quote(r.DSN.Path())+" that can be read", "correct the name; it counts from the folder that serve is started in")
			return
		}
		for _, s := range c.Store {
			if own, err := stat(s.Path()); err == nil && s.Scheme() == "sqlite" && !c.partial && os.SameFile(own, file) && !sameName(s.Path(), r.DSN.Path()) {
				k.fail(path+".dsn", "is Holdfast's own store under another name", "write the database of the service that acts")
			}
		}
	})
	for i := range c.Embedders {
		k.modelFiles(join("embedders", c.Embedders[i].Name)+".path", &c.Embedders[i], stat)
	}
	return sortFaults(k.faults)
}

// modelFiles looks for the files of a model of one's own, without which serve does not start.
func (k *checker) modelFiles(path string, e *Embedder, stat func(string) (fs.FileInfo, error)) {
	if e.Type != "model2vec" || e.Path == "" {
		return
	}
	for _, name := range []string{"tokenizer.json", "model.safetensors"} {
		if _, err := stat(filepath.Join(e.Path, name)); err != nil {
			k.fail(path, "there is no "+name+" in "+quote(e.Path)+" that can be read", "name the folder of a model2vec model, as its save_pretrained writes it; it counts from the folder that serve is started in")
			return
		}
	}
}

// eachReconcile visits each written block with its path.
func (c *Config) eachReconcile(visit func(string, *Reconcile)) {
	one := func(path string, r *Reconcile) {
		if r != nil {
			visit(path+".reconcile", r)
		}
	}
	for i := range c.Workflows {
		one(c.Workflows[i].Path(), c.Workflows[i].Reconcile)
	}
	for i := range c.Tools {
		for j := range c.Tools[i].Routes {
			one(item(join("tools", c.Tools[i].Name)+".routes", j), c.Tools[i].Routes[j].Reconcile)
		}
	}
	for i := range c.MCP.Servers {
		for j := range c.MCP.Servers[i].Tools {
			t := &c.MCP.Servers[i].Tools[j]
			one(join(join("mcp.servers", c.MCP.Servers[i].Name)+".tools", t.Name), t.Reconcile)
		}
	}
}

package policy

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

func (k *checker) tools() {
	for i := range k.c.Tools {
		s := &k.c.Tools[i]
		for j := range s.Routes {
			path := item(join("tools", s.Name)+".routes", j)
			r := &s.Routes[j]
			method, _, _ := strings.Cut(r.Match, " ")
			reads := (method == http.MethodGet || method == http.MethodHead) && !k.c.Written(path+".effect")
			k.call(path, &r.CallPolicy, r.operation(path, reconcileRoute, reads))
		}
	}
}

func (k *checker) mcp() {
	for i := range k.c.MCP.Servers {
		s := &k.c.MCP.Servers[i]
		path := join("mcp.servers", s.Name)
		command := len(s.Command) > 0 || k.wrong(path+".command")
		if command == (s.URL != "" || k.wrong(path+".url")) {
			k.fail(path, "needs exactly one of command and url", `write command: ["npx", "-y", "orders-mcp"], or url: https://…`)
		}
		for j := range s.Tools {
			t := &s.Tools[j]
			at := join(path+".tools", t.Name)
			k.call(at, &t.CallPolicy, t.operation(at, reconcileMCP, false))
			k.readTool(at+".reconcile.tool", t, s)
		}
	}
}

func (k *checker) call(path string, p *CallPolicy, o operation) {
	k.template(path+".key", p.Key)
	if p.Key != "" && p.Derive == DeriveOff {
		k.warn(path+".key", "is never used, because derive is off", "write derive: always, or remove key")
	}
	if p.Approval == ApproveDispatch && p.Derive == DeriveOff && o.place == reconcileMCP {
		k.fail(path+".approval", "without a key (derive: off) the call that was approved would not be found again", "remove derive, or approval")
	}
	if p.Effect == External && p.OnUnknown == RetryUnknown {
		k.warn(path+".on_unknown", "retry may repeat an effect that happened", "write hold, with a reconcile block")
	}
	if p.Effect == External && p.Durability == Relaxed {
		k.warn(path+".durability", "relaxed may lose the record of an effect in a power cut", "write strict")
	}
	k.conditions(path, p.Succeeded, p.Failed, p.Definite, o.place)
	k.reconcile(path+".reconcile", p.Reconcile, o)
}

// reconcilePlace is where a reconciler stands, which decides what it can reach.
type reconcilePlace uint8

const (
	reconcileWorkflow reconcilePlace = iota
	reconcileRoute
	reconcileMCP
)

// reconcile holds semantics 8: one source of evidence, and it only reads.
func (k *checker) reconcile(path string, r *Reconcile, o operation) {
	if r == nil {
		return
	}
	var kinds []string
	for _, has := range []struct {
		name string
		set  bool
	}{{"get", r.Get != ""}, {"openai_response", r.OpenAIResponse}, {"tool", r.Tool != ""}, {"sql", r.SQL != ""}} {
		if has.set {
			kinds = append(kinds, has.name)
		}
	}
	if len(kinds) != 1 {
		k.fail(path, fmt.Sprintf("names %d sources of evidence", len(kinds)), "write exactly one of get, openai_response, tool, sql")
		return
	}
	if r.Happened.IsZero() && !r.OpenAIResponse && !k.c.Written(path+".happened") {
		k.fail(path, "does not say what shows that the effect happened", `write happened: "len(body.items) > 0" over status, body, result`)
	}
	before := len(k.faults)
	k.evidence(path, r, o.place)
	k.meaning(path, r, o)
	k.expression(path+".happened", r, r.Happened)
	k.expression(path+".not_happened", r, r.NotHappened)
	if !Refused(k.faults[before:]) { // what is wrong already is not doubtful too; what is only doubtful may be wrong
		k.doubts(path, r, o)
	}
}

func (k *checker) evidence(path string, r *Reconcile, place reconcilePlace) {
	switch {
	case r.Get != "":
		k.readGet(path+".get", r.Get, place)
	case r.SQL != "":
		if why := writesSQL(r.SQL, r.postgres()); why != "" {
			k.fail(path+".sql", "is not read-only: "+why, "write one SELECT")
		}
		if r.DSN.IsZero() && !k.c.Written(path+".dsn") {
			k.fail(path+".sql", "does not say which database", "write dsn: postgres://reader@host/db")
		}
		k.password(path+".dsn", r.DSN)
	case r.Tool != "" && place != reconcileMCP:
		k.fail(path+".tool", "there is no MCP server here whose tool could be called", "write get or sql")
	case r.OpenAIResponse && place != reconcileWorkflow:
		k.fail(path+".openai_response", "only a workflow's calls are OpenAI responses", "write get, tool or sql")
	}
	if r.Metadata && !r.OpenAIResponse {
		k.fail(path+".metadata", "is for openai_response", "write openai_response: true beside it, or remove it")
	}
	k.arguments(path, r, place)
}

// arguments holds what a read is made with. An MCP server is never given a key, so that one that is looked for there would never
// be found: an absence that means nothing.
func (k *checker) arguments(path string, r *Reconcile, place reconcilePlace) {
	if len(r.Arguments) > 0 && r.Tool == "" && r.SQL == "" {
		k.warn(path+".arguments", "are used by tool and sql only", "remove them")
	}
	const noKey, instead = "an MCP server is given no key that could be looked for", `use the call's own arguments, e.g. "{customer_id}"`
	for _, a := range r.Arguments {
		fields, what := templateFields(a.Value)
		if what != "" {
			k.fail(join(path+".arguments", a.Name), what, `write field names in braces, e.g. "{customer_id}"`)
		}
		if place == reconcileMCP && slices.Contains(fields, "key") {
			k.fail(join(path+".arguments", a.Name), noKey, instead)
		}
	}
	if fields, _ := templateFields(r.Get); place == reconcileMCP && slices.Contains(fields, "key") {
		k.fail(path+".get", noKey, instead)
	}
	if place == reconcileMCP && r.SQL != "" && len(r.Arguments) == 0 {
		k.fail(path+".sql", noKey, `write what $1 is, e.g. arguments: {customer: "{customer_id}"}`)
	}
}

func (k *checker) readGet(path, get string, place reconcilePlace) {
	method, rest, has := strings.Cut(get, " ")
	switch {
	case has && method != "GET" && method != "HEAD":
		k.fail(path, "is not read-only: "+quote(method), "write the path alone; it is read with GET")
		return
	case has:
		get = rest
	}
	if strings.Contains(get, "#") {
		k.fail(path, "has a fragment, which is never sent", "write %23 for a # of the path or the query")
		return
	}
	if u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(get)); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		if host, _, _ := strings.Cut(strings.SplitN(get, "://", 2)[1], "/"); strings.ContainsAny(host, "{@") {
			k.fail(path, "has a field or a credential in its host", "write the host out; fields stand in path and query, credentials in headers")
		}
		return
	}
	switch {
	case !strings.HasPrefix(get, "/"):
		k.fail(path, quote(get)+" is not a path", "begin it with a slash, e.g. /charges?ref={key}")
	case place == reconcileMCP:
		k.fail(path, "an MCP server has no paths", "write tool, or a whole https:// address")
	}
	if _, what := templateFields(get); what != "" {
		k.fail(path, what, "write {key} or body fields in braces")
	}
}

// writeVerb recognises tools whose name says that they change something.
var writeVerb = regexp.MustCompile(`(?i)^(create|add|insert|update|upsert|delete|remove|send|post|put|patch|write|set|move|edit|cancel|charge|pay|refund|transfer|book|order|submit|publish|execute|run)([_.-]|[A-Z]|$)`)

// readTool refuses a reconciling tool that is not read-only. Policy is believed first, then the name; what neither
// says is left to the server's readOnlyHint.
func (k *checker) readTool(path string, t *MCPTool, s *MCPServer) {
	if t.Reconcile == nil || t.Reconcile.Tool == "" {
		return
	}
	name := t.Reconcile.Tool
	at := slices.IndexFunc(s.Tools, func(o MCPTool) bool { return o.Name == name })
	switch {
	case name == t.Name:
		k.fail(path, "is the tool itself: asking would act again", "name a tool that only reads")
	case at >= 0 && s.Tools[at].Effect != Read:
		k.fail(path, quote(name)+" is not read-only: its effect is "+string(s.Tools[at].Effect), "name a tool that only reads, or write effect: read for it if it does")
	case at < 0 && writeVerb.MatchString(name):
		k.fail(path, quote(name)+" is not read-only by its name", "name a tool that only reads, or add it to tools with effect: read if it does")
	}
}

var (
	sqlStart = regexp.MustCompile(`(?i)^(select|with|values|table)\b`)
	sqlWrite = regexp.MustCompile(`(?i)\b(insert|update|delete|merge|into|nextval|setval|set_config|dblink\w*|lo_\w+|pg_(?:notify|advisory\w*|terminate\w*|cancel\w*|reload\w*|write\w*|sleep\w*))\b`)
)

// writesSQL says why a statement may write, empty if it only reads. Text and comments are not looked at.
func writesSQL(sql string, postgres bool) string {
	var b strings.Builder
	for _, p := range sqlPieces(sql, postgres) {
		switch {
		case !p.closed:
			return "its quotes or comments do not close"
		case p.kind == sqlCode:
			b.WriteString(p.text)
		case p.kind == sqlName:
			b.WriteString(`"x"`)
		default:
			b.WriteByte(' ')
		}
	}
	bare := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(b.String()), ";"))
	switch word := sqlWrite.FindString(bare); {
	case strings.Contains(bare, ";"):
		return "it holds more than one statement"
	case !sqlStart.MatchString(bare):
		return "it does not begin with SELECT"
	case word != "":
		return "it says " + strings.ToUpper(word)
	}
	return ""
}

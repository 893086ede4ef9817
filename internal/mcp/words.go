package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Whether calling again is safe: interface.md §2's Holdfast-Safe-To-Retry.
const (
	safeYes   = "yes"
	safeNo    = "no"
	safeAfter = "after-reconcile"
)

// Names in _meta of a result.
const (
	metaIntent   = "holdfast/intent"
	metaReplayed = "holdfast/replayed"
	metaUnknown  = "holdfast/unknown"
	metaAge      = "holdfast/age_ms"
	metaCode     = "holdfast/code"
	metaSafe     = "holdfast/safe_to_retry"
	metaStored   = "holdfast/stored"
	metaObserved = "holdfast/observed"
)

// refusal is an answer of the proxy's own, which a model reads: it must not make it try again where that could do
// harm. It is a tool's result, since clients keep protocol errors from their models.
type refusal struct {
	code    string
	safe    string
	text    string
	intent  string
	unknown bool
	good    bool // no error: the call has taken place
}

// said is a refusal as the answer to the request with that id.
func (c *call) said(id json.RawMessage, r refusal) []byte {
	meta := map[string]any{metaCode: r.code, metaSafe: r.safe}
	if r.intent != "" {
		meta[metaIntent] = r.intent
	}
	if r.unknown {
		meta[metaUnknown] = true
	}
	// Clients hold a result without the form that the tool declares for a fault of the server's, unless it is an error.
	value := map[string]any{"content": []map[string]string{{"type": "text", "text": r.text}}, "isError": !r.good || c.facts.shape, "_meta": meta}
	if modernVersion(c.m.params) != "" {
		value["resultType"] = "complete"
	}
	raw, err := json.Marshal(value)
	if err != nil { // texts and flags always marshal
		return failure(id, codeInternal, r.text)
	}
	return result(id, raw)
}

// unknownWords stop a model from trying again.
func (c *call) unknownWords(intent, why string) refusal {
	text := fmt.Sprintf("OUTCOME UNKNOWN. This call of %q may or may not have taken effect: %s. Do not repeat it: nothing will be executed for these "+
		"arguments until the outcome is known. Look at the present state with a tool that only reads, tell the user what is not known, and go on "+
		"without repeating the call.", c.tool, why)
	if intent != "" {
		text += " A person settles it with: " + ResolveLine(intent, c.s.p.store)
	}
	return refusal{code: "outcome_unknown", safe: safeAfter, intent: intent, unknown: true, text: text}
}

// ResolveLine is the command by which a person settles an intent. store is the log's file where it has to be named, else empty.
func ResolveLine(intent, store string) string {
	line := "holdfast intents resolve " + intent + " --outcome success|failed --by NAME --reason TEXT"
	if store != "" {
		line += " --store " + shellWord(store)
	}
	return line
}

// plainWord is what a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// namesMost bounds how many names of servers a refusal lists.
const namesMost = 20

// noServer says that there is no server of that name, and which there are.
func (p *Proxy) noServer(name string) string {
	all := p.policy.Load().MCP.Servers
	if len(all) == 0 {
		return fmt.Sprintf("there is no MCP server %.80q: the configuration has none; add it under mcp.servers", name)
	}
	var names []string
	for i := range all[:min(len(all), namesMost)] {
		names = append(names, all[i].Name)
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("there is no MCP server %.80q; the configuration has %s; name one of them, or add it under mcp.servers", name, strings.Join(names, ", "))
}

// replayWords say that nothing was executed now, and how to repeat on purpose (semantics 41).
func (c *call) replayWords(value json.RawMessage, intent string, age time.Duration) string {
	text := fmt.Sprintf("REPLAY by holdfast: nothing was executed now. This is the stored answer of the identical call of %s ago (intent %s).",
		age.Round(time.Second), intent)
	if c.facts.owns {
		return text
	}
	if gjson.GetBytes(value, "isError").Bool() {
		return text + " The tool reported an error then. To execute the call again all the same, add the argument " + repeatReason + " saying why."
	}
	return text + " The effect exists once. Only if it is wanted a second time, on purpose, call again with the additional argument " +
		repeatReason + " saying why."
}

// marked adds to a result what holdfast has to say of it, and a text that a model reads.
func marked(value json.RawMessage, text string, meta map[string]any) json.RawMessage {
	out := value
	if m := gjson.GetBytes(out, "_meta"); !m.Exists() || m.IsObject() {
		for _, name := range []string{metaIntent, metaReplayed, metaAge, metaStored, metaCode} {
			if v, ok := meta[name]; ok {
				if next, err := sjson.SetBytes(out, "_meta."+name, v); err == nil {
					out = next
				}
			}
		}
	}
	if text == "" {
		return out
	}
	if content := gjson.GetBytes(out, "content"); content.IsArray() || !content.Exists() && !gjson.GetBytes(out, "task").Exists() {
		if next, err := sjson.SetBytes(out, "content.-1", map[string]string{"type": "text", "text": text}); err == nil {
			out = next
		}
	}
	return out
}

package gateway_test

import (
	"strings"
	"testing"
)

// Whatever a request asks beside text, once or twice, in its first place or its last: the tier that has not said that it can is not asked,
// and its client gets the first tier's own error.
func TestTierIsSkippedByWhatIsAsked(t *testing.T) {
	const tool = `"tools":[{"type":"function","function":{"name":"f"}}]`
	r := tiersRig(t, "")
	for op, c := range map[string]struct{ extra, rule string }{
		"tools-twice":  {`,"tools":[],` + tool, "models.tools"},
		"tools-first":  {`,` + tool + `,"tools":[]`, "models.tools"},
		"hosted-twice": {`,"tools":[],"tools":[{"type":"web_search"}]`, "fallback.require_equivalent_tools"},
		"schema-twice": {`,"response_format":{"type":"text"},"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, "models.json_schema"},
		"search":       {`,"web_search_options":{}`, "fallback.require_equivalent_tools"},
		"spoken":       {`,"modalities":["text","audio"],"audio":{"voice":"alloy"}`, "tiers.model"},
	} {
		r.skipped(chat(op, c.extra), c.rule)
	}
	for op, c := range map[string]struct{ message, rule string }{
		"heard":   {`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"x","format":"wav"}}]}`, "models.audio"},
		"seen":    {`{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://x.test/a.mp4"}}]}`, "models.video"},
		"read":    {`{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,x"}}]}`, "models.files"},
		"unheard": {`{"role":"user","content":[{"type":"hologram"}]}`, "tiers.model"},
		"kept":    {`{"role":"assistant","audio":{"id":"audio_1"}}`, "tiers.provider"},
	} {
		q := chat(op)
		q.body = strings.Replace(q.body, `{"role":"user"`, c.message+`,{"role":"user"`, 1)
		r.skipped(q, c.rule)
	}
	r.atRest()
}

// A strict tool goes to no model of which nobody has said that it keeps a schema; one that is not strict does.
func TestTierIsSkippedByAStrictTool(t *testing.T) {
	r := tiersRig(t, "")
	const tool = `,"tools":[{"type":"function","function":{"name":"f","strict":STRICT}}]`
	strict := chat("strict", strings.Replace(tool, "STRICT", `true,"strict":false`, 1))
	r.skippedIn("dead_end", strict, "models.json_schema")
	lax := chat("lax", strings.Replace(tool, "STRICT", "false", 1)).workflow("dead_end")
	r.atTier(lax.op(), "pro", `{"status":503}`)
	if a := r.must(lax, 200); a.header.Get("Holdfast-Source") != "b" {
		t.Errorf("a tool that is not strict: %v", a.header)
	}
	r.atRest()
}

// skipped sends a request whose first tier fails, and wants the second one skipped by a rule.
func (r *rig) skipped(q request, rule string) {
	r.t.Helper()
	r.skippedIn("able", q, rule)
}

func (r *rig) skippedIn(workflow string, q request, rule string) {
	r.t.Helper()
	r.atTier(q.op(), "pro", `{"status":503}`)
	a := r.must(q.workflow(workflow), 503)
	if trail := a.header.Get("Holdfast-Trail"); !strings.HasSuffix(trail, "b; skipped; rule="+rule) {
		r.t.Errorf("%s: %s, want %s", q.body, trail, rule)
	}
	r.calls(q.op(), 1)
}

// A request that a tier alone would be sent is sent to it although another one stands behind it: its length is an estimate, which is high
// for English, and the provider counts itself.
func TestLongRequestGoesToItsFirstTier(t *testing.T) {
	for name, c := range map[string]struct {
		words    int // of about 1.3 tokens and six bytes
		workflow string
		source   string
	}{
		"fits, and the estimate does not": {50000, "small_only", "b"},
		"with room behind it":             {50000, "small_first", "b"},
		"fits nowhere":                    {200000, "small_only", "b"},
		"fits only behind it":             {62500, "small_first", "c"},
	} {
		r := tiersRig(t, "")
		q := chat("long").workflow(c.workflow)
		q.body = strings.Replace(q.body, "hello", strings.Repeat("word. ", c.words), 1)
		if a := r.must(q, 200); a.header.Get("Holdfast-Source") != c.source {
			t.Errorf("%s: %v", name, a.header)
		}
	}
}

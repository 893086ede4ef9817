package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// verdict is what an answer, or its absence, means for the effect.
type verdict struct {
	end    ledger.AttemptEnd
	status int
	kind   string
	reason string
	rule   string
	stage  stage
}

// stage is what an answer is when it is not the end.
type stage uint8

const (
	stageEnd   stage = iota
	stageTask        // a task was begun; the effect comes with its end
	stageInput       // the server asks for more before it acts (MCP 2026-07-28)
)

func (v verdict) ending() intent.Ending {
	return intent.Ending{End: v.end, Status: v.status, Error: v.kind, Reason: v.reason, Rule: v.rule, Billed: v.end == ledger.AttemptUnknown}
}

// judge reads what became of a call.
func (r *rule) judge(got reply) verdict {
	switch {
	case got.fail != nil:
		return r.judgeFailure(got.fail.said())
	case got.msg.error != nil:
		return r.judgeError(got.said().error, got.status)
	}
	value := got.said().result
	switch {
	case gjson.GetBytes(value, "task.taskId").Type == gjson.String && !gjson.GetBytes(value, "content").Exists():
		return verdict{stage: stageTask}
	case gjson.GetBytes(value, "resultType").Str == "input_required" && ambiguous(value):
		return twofold
	case gjson.GetBytes(value, "resultType").Str == "input_required":
		return verdict{end: ledger.AttemptFailed, stage: stageInput, kind: "input_required", reason: "the server asks for input before it acts", rule: "MCP 2026-07-28"}
	}
	return r.judgeResult(value)
}

// judgeFailure holds semantics 3 where no answer came.
func (r *rule) judgeFailure(e *sendError) verdict {
	v := verdict{end: ledger.AttemptUnknown, status: e.status, kind: "connection_error", reason: e.Error(), rule: "semantics 3"}
	switch {
	case !e.sent:
		v.end = ledger.AttemptNotSent
	case e.gone:
		v.end, v.kind, v.reason = ledger.AttemptFailed, "session_lost", errSessionGone.Error()
	case errors.Is(e, errTooLarge):
		v.kind = "response_too_large"
	case e.status != 0:
		v.kind = "http_error"
		if r.definitely(e) {
			v.end = ledger.AttemptFailed
		}
	}
	return v
}

// definitely says that a refusal in HTTP's words proves that nothing happened. What the policy says of the contrary ("!503") is
// stronger than what it says of this, and than what is known of the status.
func (r *rule) definitely(e *sendError) bool {
	if r.Definite.Denies(e.status) && !mutant.On("definite-undenied") {
		return false
	}
	a := policy.Answer{Status: e.status, Headers: map[string]string{}}
	a.Body, a.Fault = policy.Reading(e.body)
	return signal.Definite(signal.Answer{Status: e.status, Header: e.header, Body: e.body, ReceivedAt: time.Now()}) || r.fits(r.Definite, a, e.body)
}

// fits says that a condition holds. No expression holds of a text that says two things of one member: which of them is meant, nobody
// knows.
func (r *rule) fits(c policy.Conditions, a policy.Answer, text []byte) bool {
	ok, err := c.Match(a)
	return ok && err == nil && !(len(c.Exprs) > 0 && ambiguous(text))
}

func ambiguous(text []byte) bool {
	_, err := policy.Document(text)
	return errors.Is(err, policy.ErrTwice) && !mutant.On("either-of-two")
}

// refusals are the JSON-RPC errors by which a server says that it did not take a request up. Any other may come after the
// effect, as an HTTP 500 may.
var refusals = map[int64]bool{codeParse: true, codeInvalidRequest: true, codeNoMethod: true, codeInvalidParams: true, codeURLElicitation: true,
	-32020: true, -32021: true, -32022: true} // header mismatch, missing capability, unsupported version (2026-07-28)

// judgeError reads a JSON-RPC error; status is the HTTP status that it came under, 0 for a good one or none.
func (r *rule) judgeError(raw json.RawMessage, status int) verdict {
	var e rpcError
	_ = json.Unmarshal(raw, &e) // an error of another form has code 0, which is no refusal
	v := verdict{end: ledger.AttemptUnknown, kind: "rpc_error", rule: "semantics 3", reason: fmt.Sprintf("the server answered error %d", e.Code)}
	if r.Definite.Denies(status) && !mutant.On("definite-undenied") {
		v.reason += fmt.Sprintf(" under HTTP %d, which proves nothing here", status)
		return v
	}
	a := policy.Answer{Status: status, Headers: map[string]string{}, Result: e.Message}
	_ = json.Unmarshal(raw, &a.Body)
	if r.fits(r.Definite, a, raw) || r.fits(r.Failed, a, raw) || refusals[e.Code] && !ambiguous(raw) && !speaksOfTransport(e.Message) && !speaksOfOutput(e.Message) {
		v.end = ledger.AttemptFailed
	}
	return v
}

// judgeResult holds semantics 4.
func (r *rule) judgeResult(value json.RawMessage) verdict {
	good := verdict{end: ledger.AttemptSuccess}
	isError := gjson.GetBytes(value, "isError").Bool()
	text := resultText(value)
	if r.reads() && (ambiguous(value) || isData(text) && ambiguous([]byte(text))) || bytes.Count(value, []byte(`"isError"`)) > 1 && ambiguous(value) {
		return twofold
	}
	a := policy.Answer{Headers: map[string]string{}, Result: structured(value, text)}
	_ = json.Unmarshal(value, &a.Body) // it is JSON
	if ok, _ := r.Failed.Match(a); ok {
		return verdict{end: ledger.AttemptFailed, kind: "failed_by_policy", reason: "the answer matches failed", rule: r.path + ".failed"}
	}
	if definite, _ := r.Definite.Match(a); definite && isError {
		return verdict{end: ledger.AttemptFailed, kind: "failed_by_policy", reason: "the answer matches definite", rule: r.path + ".definite"}
	}
	if ok, _ := r.Succeeded.Match(a); ok {
		return good
	}
	switch {
	case isError && speaksOfTransport(text):
		return verdict{end: ledger.AttemptUnknown, kind: "tool_error", reason: "the tool reports an error that speaks of time-out or transport", rule: "semantics 4"}
	case !r.Succeeded.IsZero() && !r.Failed.IsZero():
		return verdict{end: ledger.AttemptUnknown, kind: "unmatched_answer", reason: "the answer matches neither succeeded nor failed", rule: "semantics 4"}
	case !r.Succeeded.IsZero():
		return verdict{end: ledger.AttemptFailed, kind: "failed_by_policy", reason: "the answer does not match succeeded", rule: r.path + ".succeeded"}
	case isError:
		good.kind, good.reason, good.rule = "tool_error", "the tool reports an error, and no failed: says that this means that nothing happened", "semantics 4"
	}
	return good
}

// reads says that expressions decide what a result means.
func (r *rule) reads() bool {
	return len(r.Failed.Exprs) > 0 || len(r.Definite.Exprs) > 0 || len(r.Succeeded.Exprs) > 0
}

// isData says that a text may be one that expressions read with fromJSON.
func isData(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// twofold is the verdict on an answer that says two things of one member: which of them is meant, nobody knows.
var twofold = verdict{end: ledger.AttemptUnknown, kind: "ambiguous_answer", rule: "semantics 4",
	reason: "a member of the answer stands twice in one object, so that it says two things"}

// structured is what expressions see as result: the structured result, else the text.
func structured(value json.RawMessage, text string) any {
	var out any
	if s := gjson.GetBytes(value, "structuredContent"); s.Exists() && json.Unmarshal([]byte(s.Raw), &out) == nil {
		return out
	}
	return text
}

// maxText bounds what is read of a result's text.
const maxText = 256 << 10

// resultText joins the texts of a result.
func resultText(value json.RawMessage) string {
	var b strings.Builder
	gjson.GetBytes(value, "content").ForEach(func(_, part gjson.Result) bool {
		if part.Get("type").Str == "text" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(part.Get("text").Str)
		}
		return b.Len() < maxText
	})
	return b.String()
}

// transportWords are how clients of databases, HTTP and message queues say that they do not know what became of a request.
var transportWords = regexp.MustCompile(`(?i)\btim(?:e|ed|ing)[ _-]?out|timeouts?\b|deadline[ _-]?exceeded|\betimed|\beconn|\bepipe|\behost|\benet|\beai_again|\benotfound` +
	`|connection[^.\n]{0,40}\b(?:reset|refused|closed|abort|lost|broken|dropped|terminated|error|fail|timed|ended|unavailable)` +
	`|(?:lost|broken|closed|reset|terminated|dropped)[^.\n]{0,20}\bconnection|socket (?:hang|closed|error)|hang up|broken pipe|network[^.\n]{0,20}\b(?:error|fail|unreachable|down|issue)` +
	`|fetch failed|failed to fetch|unexpected (?:eof|end of (?:file|stream))|premature(?:ly)? (?:close|end)|stream (?:was )?(?:closed|reset|ended)` +
	`|transport (?:error|closed|fail|is closing)|bad gateway|gateway time|service (?:is )?(?:temporarily )?unavailable|no (?:response|answer|reply) (?:was )?(?:received )?(?:from|within)` +
	`|did not (?:respond|answer|reply)|\b(?:http|status|code|error)[ :=]{1,3}(?:408|409|500|502|503|504|52[0-7])\b|\b50[0234] (?:internal|bad|service|gateway)|internal server error`)

// outputWords are how servers say that what a tool returned is not what it had promised: it has run. Some of them use the
// code of invalid parameters for it, which are refused before a tool runs.
var outputWords = regexp.MustCompile(`(?i)output[ _-]?(?:schema|validation)|structured[ _-]?content|(?:invalid|validat)[^.\n]{0,40}\b(?:output|result|response)\b`)

func speaksOfOutput(text string) bool {
	return outputWords.MatchString(text[:min(len(text), maxText)])
}

func speaksOfTransport(text string) bool {
	return transportWords.MatchString(text[:min(len(text), maxText)])
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/signal"
)

// writeExplanation prints an explanation for a person.
func writeExplanation(out io.Writer, x *explain.Explanation) error {
	return table(out, func(w io.Writer) {
		line := func(name, text string) { fmt.Fprintf(w, "%s\t%s\n", name, clean(text, 0)) }
		chosen := x.Workflow + ", " + x.Chosen
		if x.WorkflowAt.Written() {
			chosen += " (" + x.WorkflowAt.At + ")"
		}
		line("workflow", chosen)
		if x.Mode == "observe" {
			line("", "it only observes: what follows is what would be done")
		}
		line("call", sayCall(x))
		line("on_unknown", x.OnUnknown+sayUnknownPlace(x))
		sayFallback(line, "begins", x.Begins)
		if x.Signal != nil {
			sayAnswer(line, x)
		}
		line("policy", "revision "+x.PolicyRevision)
	})
}

func sayCall(x *explain.Explanation) string {
	parts := []string{x.Path, x.Provider, x.Effect}
	if x.Model != "" {
		parts = append(parts, "model "+x.Model)
	}
	if x.Stream {
		parts = append(parts, "streamed")
	}
	return strings.Join(parts, ", ")
}

func sayUnknownPlace(x *explain.Explanation) string {
	switch {
	case x.OnUnknownAt.Written():
		return " (" + x.OnUnknownAt.At + ")"
	case x.Acts != "":
		return " (the request makes the provider act: " + x.Acts + ")"
	}
	return " (the default of " + x.Effect + ")"
}

func sayAnswer(line func(name, text string), x *explain.Explanation) {
	line("signal", saySignal(x.Signal))
	if m := x.Signal.Message; m != "" && m != x.Signal.ProviderErrorType {
		line("", "“"+clean(x.Signal.Message, 100)+"”")
	}
	line("outcome", sayOutcome(x))
	at := ""
	if x.Tier != "" {
		at = " at tier " + x.Tier
	}
	line("attempt", fmt.Sprintf("%d of %d%s, %s of the budget left", x.Attempt, x.MaxAttempts, at, span(milliseconds(x.RemainingMS))))
	for i := range x.Decisions {
		sayDecision(line, &x.Decisions[i])
	}
	sayFallback(line, "fallback", x.Fallback)
	if len(x.StandIns) > 0 {
		line("instead", "where no tier answers: "+strings.Join(x.StandIns, ", then ")+"; the call stays failed, its key is released [workflow's cache]")
	}
	route := "no cool-down"
	if x.CoolDownMS > 0 {
		route = "nobody calls it for " + span(milliseconds(x.CoolDownMS))
	}
	line("route", route+"; for its breaker "+map[string]string{"failure": "a failure", "success": "a success", "ignored": "it says nothing"}[x.Breaker])
	line("key", x.Key+": "+x.KeyWhy)
}

func saySignal(s *signal.Signal) string {
	parts := []string{string(s.Class)}
	if s.ProviderErrorType != "" {
		parts = append(parts, s.ProviderErrorType)
	}
	if s.Class != signal.None {
		parts = append(parts, map[bool]string{true: "may be sent again", false: "not to be sent again"}[s.Retryable])
	}
	if wait, stated := s.RetryAfter(); stated {
		parts = append(parts, "asks for a wait of "+span(wait))
	}
	if s.LimitDimension != "" {
		parts = append(parts, "limit: "+string(s.LimitDimension))
	}
	return strings.Join(parts, ", ")
}

func sayOutcome(x *explain.Explanation) string {
	words := map[string]string{"success": "success", "failed": "failed for certain", "not_sent": "failed for certain, not sent",
		"unknown": "unknown: it may have been carried out, and billed"}
	return words[x.Outcome] + " (" + x.OutcomeWhy + ") [" + x.OutcomeRule + "]"
}

func sayDecision(line func(name, text string), d *explain.Decision) {
	text := d.Words
	if d.Share < 100 {
		text += fmt.Sprintf(" (by chance, %d %% of the time)", d.Share)
	}
	line("decision", text)
	switch {
	case d.NextTier != "":
	case d.Action == decision.Fail && d.MaxDelayMS > 0:
		line("  delay", "the client is told to wait "+span(milliseconds(d.MaxDelayMS)))
	case d.MaxDelayMS > 0:
		line("  delay", span(milliseconds(d.MinDelayMS))+" to "+span(milliseconds(d.MaxDelayMS))+", by jitter")
	}
	if d.Lane != "" {
		line("  lane", d.Lane)
	}
	line("  because", d.Reason)
	rule := d.Rule
	if d.Condition != "" {
		rule += ", condition " + d.Condition
	}
	line("  rule", rule)
	if d.Place.Value != "" {
		line("  policy", d.Place.Path+": "+d.Place.Value)
	}
	line("  line", d.Place.Say())
}

// sayFallback says whether another tier may answer, and why each that may not does not.
func sayFallback(line func(name, text string), name string, f *explain.Fallback) {
	if f == nil {
		return
	}
	line(name, f.Words)
	for i := range f.Skipped {
		s := &f.Skipped[i]
		line("  tier "+s.Tier, s.Reason+" ["+s.Rule+"], condition "+s.Condition)
		if i < len(f.Places) {
			line("  line", f.Places[i].Say())
		}
	}
	if len(f.Skipped) > 0 && f.Action != fallback.Next {
		return // it is the rule of one of them
	}
	line("  rule", f.Rule)
	line("  line", f.Place.Say())
}

// milliseconds saturates: a provider may ask for a wait of centuries.
func milliseconds(n int64) time.Duration {
	if n > int64(1<<63-1)/int64(time.Millisecond) {
		return 1<<63 - 1
	}
	return time.Duration(n) * time.Millisecond
}

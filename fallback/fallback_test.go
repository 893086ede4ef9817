package fallback_test

import (
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/fallback"
)

// usual is the default policy of interface.md §5.
func usual() *fallback.Policy {
	return &fallback.Policy{On: []string{"rate_limited", "overloaded", "server_error", "timeout", "connection_error", "unknown_outcome"},
		Allowed: true, Tools: true, Schema: true, CostCap: true, DataBoundary: true, Safety: true, Observability: true}
}

func tier(name string) fallback.Tier {
	return fallback.Tier{Name: name, Provider: name, Model: name + "-1", Wire: "openai", ContextTokens: 1000, Tokens: 100}
}

// failed is a request without wishes that a first tier has failed at, with one tier behind it.
func failed() *fallback.Facts {
	return &fallback.Facts{Failure: "server_error", Remaining: time.Minute, Needs: fallback.Needs{Wire: "openai"},
		From: tier("pro"), Later: []fallback.Tier{tier("flash")}}
}

// Every rule that has no other tier answer, in the order in which it is asked: each case also breaks all rules below its own.
func TestDenials(t *testing.T) {
	f, p := failed(), usual()
	f.Visible, f.Held, f.Left, f.Failure, f.Remaining, p.Allowed = true, true, true, "", 0, false
	for _, c := range []struct {
		mend   func() // the rule before is kept
		action fallback.Action
		rule   string
	}{
		{func() {}, fallback.Denied, "semantics 22"},
		{func() { f.Visible = false }, fallback.Denied, "on_unknown"},
		{func() { f.Held = false }, fallback.Denied, "semantics 25"},
		{func() { f.Left = false }, fallback.Denied, "fallback.allowed_before_first_token"},
		{func() { p.Allowed = true }, fallback.Denied, "fallback.on"},
		{func() { f.Failure = "not_found" }, fallback.Denied, "fallback.on"},
		{func() { f.Failure = "timeout" }, fallback.Denied, "timeouts.total"},
		{func() { f.Failure, f.Refused = "", true }, fallback.Denied, "timeouts.total"},
		{func() { f.Remaining = time.Second }, fallback.Next, "tiers"},
		{func() { f.Later = nil; f.Visible = true }, fallback.None, "tiers"},
	} {
		c.mend()
		if d := fallback.Decide(f, p); d.Action != c.action || d.Rule != c.rule || d.Reason == "" || d.Condition != "" {
			t.Errorf("%s by %s expected: %+v", c.action, c.rule, d)
		}
	}
}

// What a contract asks of a tier, one rule at a time: a certain no is a mismatch, what nobody has said is never a yes.
func TestContract(t *testing.T) {
	const yes, no, unsaid = fallback.Yes, fallback.No, fallback.NotSaid
	for name, c := range map[string]struct {
		change    func(f *fallback.Facts, t *fallback.Tier, p *fallback.Policy)
		action    fallback.Action
		condition string
		rule      string
	}{
		"equal":          {func(*fallback.Facts, *fallback.Tier, *fallback.Policy) {}, fallback.Next, "", "tiers"},
		"another format": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.Wire = "gemini" }, fallback.Mismatch, "fallback_contract_mismatch", "tiers.provider"},
		"kept there":     {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.Held = "conversation" }, fallback.Mismatch, "fallback_contract_mismatch", "tiers.provider"},
		"kept here": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Held, t.Provider = "conversation", "pro"
		}, fallback.Next, "", "tiers"},
		"kept at home": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Held, f.Needs.Home, f.Needs.Hosted = "thinking", "flash", "web_search"
		}, fallback.Next, "", "tiers"},
		"kept at another's home": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Held, f.Needs.Home, t.Provider = "thinking", "flash", "pro"
		}, fallback.Mismatch, "fallback_contract_mismatch", "tiers.provider"},
		"tools":    {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { f.Needs.Tools, t.Tools = true, yes }, fallback.Next, "", "tiers"},
		"no tools": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { f.Needs.Tools, t.Tools = true, no }, fallback.Mismatch, "fallback_contract_mismatch", "models.tools"},
		"tools?":   {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { f.Needs.Tools, t.Tools = true, unsaid }, fallback.Unknown, "fallback_contract_unknown", "models.tools"},
		"the same model": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Tools, t.Model, t.ContextTokens = true, "pro-1", 0
		}, fallback.Next, "", "tiers"},
		"hosted": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Tools, f.Needs.Hosted, t.Tools = true, "web_search", yes
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_equivalent_tools"},
		"one at a time": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Tools, f.Needs.Parallel, t.Tools, t.Parallel = true, true, yes, no
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_equivalent_tools"},
		"vectors": {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.SameModel = true }, fallback.Mismatch, "fallback_contract_mismatch", "tiers.model"},
		"lacks": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			t.Lack = &fallback.Lack{Rule: "tiers.prompt", Reason: "no"}
		}, fallback.Mismatch, "fallback_contract_mismatch", "tiers.prompt"},
		"been there": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Images, t.Past = true, &fallback.Lack{Rule: "retry.max_attempts", Reason: "no more"}
		}, fallback.Denied, "", "retry.max_attempts"},
		"reviewed": {func(f *fallback.Facts, _ *fallback.Tier, p *fallback.Policy) { f.Needs.Images, p.Reviewed = true, true }, fallback.Next, "", "tiers"},
		"no matter": {func(f *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			f.Needs.Tools, t.Tools, p.Tools = true, no, false
		}, fallback.Next, "", "tiers"},
		"schema?":  {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.Schema = true }, fallback.Unknown, "fallback_contract_unknown", "models.json_schema"},
		"images?":  {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.Images = true }, fallback.Unknown, "fallback_contract_unknown", "models.images"},
		"too long": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.Tokens, t.Least = 2000, 1001 }, fallback.Mismatch, "fallback_contract_mismatch", "models.context_tokens"},
		"too long?": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.ContextTokens, t.Tokens, t.Least = 1001, 1001, 1000
		}, fallback.Unknown, "fallback_contract_unknown", "models.context_tokens"},
		"as long as the first": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.Tokens, t.Least = 1001, 1000 }, fallback.Next, "", "tiers"},
		"run there":            {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.Hosted = "web_search_options" }, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_equivalent_tools"},
		"audio?":               {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.Audio = true }, fallback.Unknown, "fallback_contract_unknown", "models.audio"},
		"no video": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Audio, f.Needs.Video, t.Video = true, true, no
		}, fallback.Mismatch, "fallback_contract_mismatch", "models.video"},
		"files":       {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { f.Needs.Files, t.Files = true, yes }, fallback.Next, "", "tiers"},
		"never heard": {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.Needs.Other = "hologram" }, fallback.Unknown, "fallback_contract_unknown", "tiers.model"},
		"heard by the model": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Other, f.Needs.Audio, t.Model = "hologram", true, "pro-1"
		}, fallback.Next, "", "tiers"},
		"window?": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.ContextTokens = 0 }, fallback.Unknown, "fallback_contract_unknown", "models.context_tokens"},
		"elsewhere": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.DataBoundary, t.DataBoundary = "eu", "us"
		}, fallback.Mismatch, "data_boundary_mismatch", "fallback.require_data_boundary_match"},
		"elsewhere?":      {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.From.DataBoundary = "eu" }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_data_boundary_match"},
		"from elsewhere?": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.DataBoundary = "eu" }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_data_boundary_match"},
		"anywhere": {func(f *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			f.From.DataBoundary, p.DataBoundary = "eu", false
		}, fallback.Next, "", "tiers"},
		"strict?": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Tools, f.Needs.Strict, t.Tools = true, true, yes
		}, fallback.Unknown, "fallback_contract_unknown", "models.json_schema"},
		"not strict": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { f.Needs.Strict, t.Schema = true, no }, fallback.Mismatch, "fallback_contract_mismatch", "models.json_schema"},
		"strict":     {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { f.Needs.Strict, t.Schema = true, yes }, fallback.Next, "", "tiers"},
		"strict, no matter": {func(f *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			f.Needs.Strict, t.Schema, p.Schema = true, no, false
		}, fallback.Next, "", "tiers"},
		"the same safety": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.SafetyClass, t.SafetyClass = "a", "a"
		}, fallback.Next, "", "tiers"},
		"another safety": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.SafetyClass, t.SafetyClass = "a", "b"
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_safety_match"},
		"safety?":              {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.From.SafetyClass = "a" }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_safety_match"},
		"safety of the first?": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.SafetyClass = "b" }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_safety_match"},
		"any safety": {func(f *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			f.From.SafetyClass, t.SafetyClass, p.Safety = "a", "b", false
		}, fallback.Next, "", "tiers"},
		"the same observability": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.Observability, t.Observability = "a", "a"
		}, fallback.Next, "", "tiers"},
		"another observability": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.Observability, t.Observability = "a", "b"
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_observability_match"},
		"observability?":              {func(f *fallback.Facts, _ *fallback.Tier, _ *fallback.Policy) { f.From.Observability = "a" }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_observability_match"},
		"observability of the first?": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.Observability = "b" }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_observability_match"},
		"any observability": {func(f *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			f.From.Observability, t.Observability, p.Observability = "a", "b", false
		}, fallback.Next, "", "tiers"},
		"another quality": {func(_ *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) { t.QualityClass = "b" }, fallback.Unknown, "fallback_contract_unknown", "fallback.contract"},
		"approved":        {func(_ *fallback.Facts, t *fallback.Tier, p *fallback.Policy) { t.QualityClass, p.Contract = "b", "C-7" }, fallback.Next, "", "tiers"},
		"over the cap": {func(_ *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			t.Priced, t.Cost, p.Capped, p.Cap = true, 11, true, 10
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_cost_cap"},
		"cap used up": {func(_ *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			t.Priced, t.Cost, p.Capped, p.Cap = true, 1, true, -5
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_cost_cap"},
		"within the cap": {func(_ *fallback.Facts, t *fallback.Tier, p *fallback.Policy) {
			t.Priced, t.Cost, p.Capped, p.Cap = true, 10, true, 10
		}, fallback.Next, "", "tiers"},
		"price?": {func(_ *fallback.Facts, _ *fallback.Tier, p *fallback.Policy) { p.Capped, p.Cap = true, 10 }, fallback.Unknown, "fallback_contract_unknown", "fallback.require_cost_cap"},
		"dearer": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.CostClass, t.CostClass = "low", "high"
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_cost_cap"},
		"cheaper": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.CostClass, t.CostClass = "high", "low"
		}, fallback.Next, "", "tiers"},
		"dearer?": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.From.CostClass, t.CostClass = "gold", "lead"
		}, fallback.Unknown, "fallback_contract_unknown", "fallback.require_cost_cap"},
		"certain first": {func(f *fallback.Facts, t *fallback.Tier, _ *fallback.Policy) {
			f.Needs.Tools, t.QualityClass, t.CostClass, f.From.CostClass = true, "b", "high", "low"
		}, fallback.Mismatch, "fallback_contract_mismatch", "fallback.require_cost_cap"},
	} {
		f, p := failed(), usual()
		c.change(f, &f.Later[0], p)
		d := fallback.Decide(f, p)
		if d.Action != c.action || d.Condition != c.condition || d.Rule != c.rule || d.Reason == "" {
			t.Errorf("%s: %s, %q by %s expected: %+v", name, c.action, c.condition, c.rule, d)
		}
		if next := d.Action == fallback.Next; next != (d.Tier == "flash") || next == (len(d.Skipped) > 0) {
			t.Errorf("%s: %+v", name, d)
		}
		if name == "approved" != (d.Contract != "") {
			t.Errorf("%s: contract %q", name, d.Contract)
		}
	}
}

// Of several tiers the first that keeps the contract is next, with the reasons of those before it; where none does, what is
// not known of one weighs more than what is certain of the others.
func TestOrder(t *testing.T) {
	f, p := failed(), usual()
	f.Needs.Tools, f.From.DataBoundary = true, "eu"
	us, dumb, mute, good := tier("us"), tier("dumb"), tier("mute"), tier("good")
	us.DataBoundary, us.Tools = "us", fallback.Yes
	dumb.DataBoundary, dumb.Tools = "eu", fallback.No
	mute.DataBoundary = "eu"
	good.DataBoundary, good.Tools = "eu", fallback.Yes
	lax := good
	lax.SafetyClass, f.From.SafetyClass = "lax", "strict"
	for _, t := range []*fallback.Tier{&us, &dumb, &mute, &good} {
		t.SafetyClass = "strict"
	}
	for _, c := range []struct {
		later     []fallback.Tier
		action    fallback.Action
		condition string
		skipped   int
	}{
		{[]fallback.Tier{us, dumb, mute, good}, fallback.Next, "", 3},
		{[]fallback.Tier{us, dumb, mute}, fallback.Unknown, "fallback_contract_unknown", 3},
		{[]fallback.Tier{us, dumb}, fallback.Mismatch, "fallback_contract_mismatch", 2},
		{[]fallback.Tier{us}, fallback.Mismatch, "data_boundary_mismatch", 1},
		{[]fallback.Tier{us, lax}, fallback.Mismatch, "fallback_contract_mismatch", 2},
	} {
		f.Later = c.later
		p.Approval = !p.Approval
		d := fallback.Decide(f, p)
		if d.Action != c.action || d.Condition != c.condition || len(d.Skipped) != c.skipped {
			t.Errorf("%+v", d)
		}
		if d.Approval != (p.Approval && d.Action == fallback.Next) {
			t.Errorf("approval %v of %+v", d.Approval, d)
		}
	}
}

// long makes a request one of so many tokens at least, and of more by the estimate that is rather too high.
func long(t *fallback.Tier, least int64) { t.Tokens, t.Least = least*5/3, least }

// A call begins at its first tier unless that one cannot keep what is asked; how long it is, is an estimate: it moves a call that finds room elsewhere, and refuses none.
func TestStart(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *fallback.Facts, p *fallback.Policy)
		action  fallback.Action
		tier    string
		rule    string
		skipped int
	}{
		"usual":                     {func(*fallback.Facts, *fallback.Policy) {}, fallback.Next, "pro", "tiers", 0},
		"nobody knows":              {func(f *fallback.Facts, _ *fallback.Policy) { f.Needs.Tools = true }, fallback.Next, "pro", "tiers", 0},
		"too long":                  {func(f *fallback.Facts, _ *fallback.Policy) { long(&f.Later[0], 5000) }, fallback.Next, "flash", "tiers", 1},
		"may be long":               {func(f *fallback.Facts, _ *fallback.Policy) { long(&f.Later[0], 1000) }, fallback.Next, "pro", "tiers", 0},
		"all too long":              {func(f *fallback.Facts, _ *fallback.Policy) { long(&f.Later[0], 5000); long(&f.Later[1], 5000) }, fallback.Next, "pro", "tiers", 0},
		"alone":                     {func(f *fallback.Facts, _ *fallback.Policy) { f.Later = f.Later[:1]; long(&f.Later[0], 5000) }, fallback.Next, "pro", "tiers", 0},
		"too long, not allowed":     {func(f *fallback.Facts, p *fallback.Policy) { long(&f.Later[0], 5000); p.Allowed = false }, fallback.Next, "pro", "tiers", 0},
		"too long, its owner asked": {func(f *fallback.Facts, p *fallback.Policy) { long(&f.Later[0], 5000); p.Approval = true }, fallback.Next, "pro", "tiers", 0},
		"blind":                     {func(f *fallback.Facts, _ *fallback.Policy) { f.Needs.Images, f.Later[0].Images = true, fallback.No }, fallback.Unknown, "", "models.images", 2},
		"blind, seeing": {func(f *fallback.Facts, _ *fallback.Policy) {
			f.Needs.Images, f.Later[0].Images, f.Later[1].Images = true, fallback.No, fallback.Yes
		}, fallback.Next, "flash", "tiers", 1},
		"blind alone": {func(f *fallback.Facts, _ *fallback.Policy) {
			f.Later, f.Needs.Images = f.Later[:1], true
			f.Later[0].Images = fallback.No
		}, fallback.Mismatch, "", "models.images", 1},
		"not allowed": {func(f *fallback.Facts, p *fallback.Policy) {
			f.Needs.Images, f.Later[0].Images, f.Later[1].Images, p.Allowed = true, fallback.No, fallback.Yes, false
		}, fallback.Mismatch, "", "models.images", 1},
		"by its owner": {func(f *fallback.Facts, p *fallback.Policy) {
			f.Needs.Images, f.Later[0].Images, f.Later[1].Images, p.Approval = true, fallback.No, fallback.Yes, true
		}, fallback.Next, "flash", "tiers", 1},
		"none": {func(f *fallback.Facts, _ *fallback.Policy) { f.Later = nil }, fallback.None, "", "tiers", 0},
	} {
		f, p := failed(), usual()
		f.Later = []fallback.Tier{tier("pro"), tier("flash")}
		c.change(f, p)
		d := fallback.Start(f, p)
		if d.Action != c.action || d.Tier != c.tier || d.Rule != c.rule || len(d.Skipped) != c.skipped || d.Approval != (name == "by its owner") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

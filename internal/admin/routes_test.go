package admin

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
)

const routesPath = "/holdfast/v1/routes"

// withRoutes gives the rig routes, of which one was called.
func withRoutes(t *testing.T, drills policy.Drills) (*rig, *route.Route, *bytes.Buffer) {
	r := newRig(t)
	table := route.New(route.Config{Cooldowns: r.api.Ledger})
	t.Cleanup(table.Close)
	var log bytes.Buffer
	r.api.Routes, r.api.Logger, r.api.Policy().Drills = table, slog.New(slog.NewTextHandler(&log, nil)), drills
	return r, table.Get("openai/gpt-5/chat.completions/ab", breaker.Config{}, 0.2), &log
}

func routesOf(t *testing.T, h http.Handler) []Route {
	t.Helper()
	w := send(h, "GET", routesPath, "")
	var list []Route
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || list == nil {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	return list
}

func told(t *testing.T, h http.Handler, action, body string) Obeyed {
	t.Helper()
	w := send(h, "POST", routesPath+"/"+action, body)
	var out Obeyed
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 || out.Action != action {
		t.Fatalf("%s %s: %d %s %v", action, body, w.Code, w.Body, err)
	}
	return out
}

func TestRoutesAreToldAndShown(t *testing.T) {
	r, known, log := withRoutes(t, policy.Drills{Allow: true, Max: time.Hour})
	r.api.Bulkheads = func() []gateway.Bulkhead {
		return []gateway.Bulkhead{{Workflow: "chat", Tier: "openai", Provider: "openai", Max: 30, Used: 2, Waiting: 1},
			{Workflow: "chat", Tier: "anthropic", Provider: "anthropic", Max: 30}, {Workflow: "any", Tier: "tier1", Name: "shared", Max: 3}}
	}
	h := r.operators(policy.Auth{})
	one := func() Route { t.Helper(); return routesOf(t, h)[0] }
	if v := one(); v.Route != known.Key() || !v.Known || v.Paused || v.Breaker.State != "closed" || v.Cooldown != nil || v.Fault != nil ||
		*v.RetryTokens != 10 || len(v.Bulkheads) != 2 || v.Bulkheads[0] != (Bulkheads{"chat", "openai", "", 30, 2, 1}) || v.Bulkheads[1].Name != "shared" {
		t.Errorf("at rest: %+v", v)
	}

	if out := told(t, h, "pause", `{"route":"openai/*","reason":"invoice","by":"ada"}`); out.Known != 1 {
		t.Errorf("%+v", out)
	}
	list := routesOf(t, h)
	if v := list[0]; !v.Paused || v.PausedReason != "invoice" {
		t.Errorf("paused: %+v", v)
	}
	if len(list) != 2 || list[1].Known || list[1].Route != "openai/*" || !list[1].Paused {
		t.Errorf("the order for routes to come is not shown: %+v", list)
	}
	if !strings.Contains(log.String(), "by=ada") || !strings.Contains(log.String(), "reason=invoice") {
		t.Errorf("the log does not say who and why: %s", log)
	}
	told(t, h, "resume", `{"route":"openai/*"}`)
	told(t, h, "trip", `{"route":"`+known.Key()+`","reason":"garbage"}`)
	list = routesOf(t, h)
	if v := list[0]; v.Paused || v.Breaker.State != "open" || !v.Breaker.Forced || v.Breaker.Reason != "garbage" || v.Breaker.Since == nil || len(list) != 1 {
		t.Errorf("tripped: %+v", list)
	}
	known.Cool(time.Hour, "rate_limited")
	if c := one().Cooldown; c == nil || c.Reason != "rate_limited" || c.Until == nil || c.Probing || c.RemainingMs < 3590_000 || c.RemainingMs > 3600_000 {
		t.Errorf("cooling: %+v", c)
	}
	told(t, h, "reset", `{"route":"*"}`)
	if v := one(); v.Breaker.State != "closed" || v.Cooldown != nil {
		t.Errorf("reset: %+v", v)
	}
	if rows, err := r.api.Ledger.Cooldowns(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("after the reset a restart would find %v %v", rows, err)
	}

	if out := told(t, h, "fault", `{"route":"*/gpt-5/*","status":503,"for_ms":60000}`); out.Until == nil || one().Fault.Probability != 1 {
		t.Errorf("without a probability: %+v", out)
	}
	out := told(t, h, "fault", `{"route":"*/gpt-5/*","probability":0.25,"status":429,"retry_after_ms":5000,"latency_ms":20,"for_ms":60000}`)
	if out.Known != 1 || out.Until == nil {
		t.Errorf("%+v", out)
	}
	if f := one().Fault; f == nil || f.Pattern != "*/gpt-5/*" || f.Probability != 0.25 || f.Status != 429 || f.RetryAfterMs != 5000 || f.LatencyMs != 20 || !f.Until.Equal(*out.Until) {
		t.Errorf("fault: %+v", f)
	}
	orders := strings.Count(log.String(), "was carried out")
	if out := told(t, h, "heal", `{"route":"*/gpt-5/"}`); out.Known != 0 || strings.Count(log.String(), "was carried out") != orders {
		t.Errorf("another pattern healed it: %+v\n%s", out, log)
	}
	if out := told(t, h, "heal", `{"route":"*"}`); out.Known != 1 || one().Fault != nil {
		t.Errorf("not healed: %+v", out)
	}
}

// Each order is one line for the operator, the one that says who gave it.
func TestAnOrderIsOneWarning(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.api.Logger = slog.New(slog.NewTextHandler(&log, nil))
	table := route.New(route.Config{Cooldowns: r.api.Ledger, Logger: r.api.Logger})
	t.Cleanup(table.Close)
	r.api.Routes = table
	h := r.operators(policy.Auth{})
	for _, action := range []string{"pause", "resume", "trip", "reset"} {
		log.Reset()
		told(t, h, action, `{"route":"openai/*","reason":"why","by":"ada"}`)
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "by=ada") {
			t.Errorf("%s: %s", action, &log)
		}
	}
}

func TestOrdersAreStrict(t *testing.T) {
	r, _, log := withRoutes(t, policy.Drills{Allow: true, Max: time.Hour})
	h := r.operators(policy.Auth{})
	const fault = `{"route":"*","probability":1,"status":503,"for_ms":1000`
	for body, action := range map[string]string{
		"": "pause", "null": "pause", "[]": "resume", `{"route":"*"}`: "pause", `{"route":"*","reason":" "}`: "trip", `{"reason":"x"}`: "pause",
		`{"route":""}`: "reset", `{"route":"*","reason":"x","extra":1}`: "pause", `{"route":"*"} {"route":"*"}`: "resume", `{"route":"*"} x`: "reset",
		`{"route":"*","reason":"a\u001b[2Jb"}`: "pause", `{"route":"` + strings.Repeat("x", 513) + `","reason":"x"}`: "pause",
		`{"route":"*","by":"` + strings.Repeat("é", 501) + `","reason":"x"}`: "pause", `{"route":7,"reason":"x"}`: "pause",
		`{"route":"*","probability":1}`: "heal", strings.Repeat("[", 100_000): "pause", `{"route":"*","reason":"` + strings.Repeat("x", 1<<20) + `"}`: "pause",
		`{"route":"openai","reason":"x"}`: "pause", `{"route":"openai/gpt-5/chat"}`: "heal", fault + `,"route":"openai"}`: "fault",
		"{}": "fault", `{"route":"*","probability":1,"status":503}`: "fault", fault + `,"for_ms":3600001}`: "fault", fault + `,"for_ms":9223372036854775807}`: "fault",
		fault + `,"for_ms":-1}`: "fault", fault + `,"probability":0}`: "fault", fault + `,"probability":1.01}`: "fault", fault + `,"status":200}`: "fault",
		fault + `,"status":0}`: "fault", fault + `,"cut_bytes":1}`: "fault", fault + `,"latency_ms":9223372036854775807}`: "fault",
		fault + `,"latency_ms":-1}`: "fault", fault + `,"retry_after_ms":-1}`: "fault", fault + `,"status":0,"cut_bytes":-1}`: "fault",
		fault + `,"status":0,"cut_bytes":5,"body":"x"}`: "fault", fault + `,"route":""}`: "fault", fault + `,"body":"` + strings.Repeat("x", 1<<17) + `"}`: "fault",
	} {
		w := send(h, "POST", routesPath+"/"+action, body)
		var f Failure
		if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || w.Code != 400 || f.Error.Code != "invalid_request" || strings.Contains(f.Error.Message, "route: ") {
			t.Errorf("%s %.60q: %d %.200s", action, body, w.Code, w.Body)
		}
	}
	if len(r.api.Routes.Orders()) != 0 || len(r.api.Routes.Faults()) != 0 || log.Len() != 0 {
		t.Errorf("something was obeyed: %v %v\n%s", r.api.Routes.Orders(), r.api.Routes.Faults(), log)
	}
	for _, c := range [][2]string{{"GET", "pause"}, {"POST", "explode"}, {"DELETE", ""}, {"POST", ""}} {
		if w := send(h, c[0], strings.TrimSuffix(routesPath+"/"+c[1], "/"), `{"route":"*","reason":"x"}`); w.Code != 404 && w.Code != 405 {
			t.Errorf("%v: %d", c, w.Code)
		}
	}
}

// Nobody disturbs a gateway on purpose whose configuration does not say that it may be.
func TestFaultsOnlyWhereDrillsAreAllowed(t *testing.T) {
	r, _, _ := withRoutes(t, policy.Drills{Max: time.Hour})
	h := r.operators(policy.Auth{})
	w := send(h, "POST", routesPath+"/fault", `{"route":"*","probability":1,"status":503,"for_ms":1000}`)
	if w.Code != 403 || !strings.Contains(w.Body.String(), "drills: {allow: true}") || len(r.api.Routes.Faults()) != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	told(t, h, "trip", `{"route":"*","reason":"an operator may always stop calls"}`)
	told(t, h, "heal", `{"route":"*"}`)
}

func TestRoutesAreForOperators(t *testing.T) {
	r, _, log := withRoutes(t, policy.Drills{Allow: true, Max: time.Hour})
	h := r.operators(policy.Auth{Keys: []policy.AuthKey{{Key: policy.NewSecret("operator-key"), Name: "night-shift", Tenant: "main", Role: policy.RoleOperator},
		{Key: policy.NewSecret("client-key"), Tenant: "main", Role: policy.RoleClient}}})
	tenants := r.api.Tenants(func(*http.Request) string { return "main" })
	const body = `{"route":"*","reason":"x","by":"ada"}`
	for _, action := range []string{"pause", "resume", "trip", "reset", "fault", "heal", ""} {
		method, path := "POST", routesPath+"/"+action
		if action == "" {
			method, path = "GET", routesPath
		}
		for _, header := range [][]string{nil, {"Authorization", "Bearer client-key"}} {
			if w := send(h, method, path, body, header...); w.Code != 401 {
				t.Errorf("%s %v: %d", path, header, w.Code)
			}
		}
		if w := send(h, method, path, body, "Authorization", "Bearer operator-key", "Origin", "http://evil.example"); w.Code != 403 {
			t.Errorf("%s from a page of a stranger's: %d", path, w.Code)
		}
		if w := send(tenants, method, path, body); w.Code != 404 {
			t.Errorf("%s on the data port: %d", path, w.Code)
		}
	}
	if len(r.api.Routes.Orders()) != 0 {
		t.Error("somebody who may not was obeyed")
	}
	if w := send(h, "POST", routesPath+"/pause", body, "Authorization", "Bearer operator-key"); w.Code != 200 {
		t.Errorf("an operator: %d %s", w.Code, w.Body)
	}
	for _, want := range []string{"by=ada", "credential=night-shift", "pattern=*", "action=pause"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
	if strings.Contains(log.String(), "operator-key") {
		t.Error("the log shows the key")
	}
}

// A store beside a gateway knows nothing of its routes.
func TestNoRoutesWithoutAGateway(t *testing.T) {
	r := newRig(t)
	w := send(r.operators(policy.Auth{}), "GET", routesPath, "")
	if w.Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

package gateway_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// leadsOn is a first tier that sends its lead-in and then, once a second, what clients may be sent while they wait; the second one answers.
// Behind most bytes of that it ends as end says.
type leadsOn struct {
	wire string
	most int // 0: it never ends
	end  func(w http.ResponseWriter) (tears bool)
}

func (f *leadsOn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	wire := speaks(r.URL.Path, f.wire)
	w.Header().Set("Content-Type", kindOf(wire))
	if strings.HasPrefix(r.URL.Path, "/second/") {
		_, _ = io.WriteString(w, goodAnswer[wire])
		return
	}
	sent, _ := io.WriteString(w, lead(wire))
	for f.most == 0 || sent < f.most {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(time.Second): // of the bubble's
		case <-r.Context().Done():
			return
		}
		n, err := io.WriteString(w, signOfLife[wire])
		if sent += n; err != nil {
			return
		}
	}
	if f.end(w) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// leadInCall makes a call in fake time whose first tier only leads on, under the lines more of each workflow and of the policy.
func leadInCall(t *testing.T, far *leadsOn, other, workflow, policy string) (a *answered, took time.Duration) {
	yaml := strings.NewReplacer("FAR", "http://far.test", "COMMON", twoTiersCommon+workflow).Replace(twoTiers) + policy
	inBubble(t, yaml, far, func(b *bubble) {
		q := cutCase{wire: far.wire, model: "leads", other: other}.ask()
		req := httptest.NewRequest("POST", "http://127.0.0.1"+q.path, strings.NewReader(q.body))
		req.Header.Set("Content-Type", "application/json")
		for k, v := range q.header {
			req.Header.Set(k, v)
		}
		w, began := httptest.NewRecorder(), time.Now()
		b.gw.ServeHTTP(w, req)
		took = time.Since(began)
		got := w.Result()
		a = &answered{status: got.StatusCode, header: got.Header, trailer: got.Trailer, body: w.Body.Bytes()}
	})
	return a, took
}

// eachTwoTiers calls f with each format, and each translation, of the second tier.
func eachTwoTiers(t *testing.T, f func(t *testing.T, wire, other string)) {
	for _, wire := range wires {
		others := map[string][]string{"openai-chat": {"", "openai-anthropic", "openai-gemini"}, "anthropic": {"", "anthropic-openai", "anthropic-gemini"}}[wire]
		for i := range max(1, len(others)) {
			other := ""
			if others != nil {
				other = others[i]
			}
			t.Run(cmp.Or(other, wire), func(t *testing.T) { f(t, wire, other) })
		}
	}
}

// A tier that shows signs of life and nothing else has no first content: at first_token the next one is asked, and what the first one sent
// is nowhere (semantics 22, 30). Whether the wait is bridged changes none of it.
func TestSignsOfLifeAreNoFirstToken(t *testing.T) {
	eachTwoTiers(t, func(t *testing.T, wire, other string) {
		c := cutCase{wire: wire, model: "leads", other: other}
		for _, bridged := range []bool{false, true} {
			after := "1h"
			if bridged {
				after = "7s"
			}
			a, took := leadInCall(t, &leadsOn{wire: wire}, other, ", bridge_after: "+after+", timeouts: {first_token: 20s, idle: 5s, attempt: 60s, total: 120s}", "")
			if took < 20*time.Second || took > 21*time.Second {
				t.Errorf("bridged %v: it took %s", bridged, took)
			}
			facts, body := a.header, a.body
			if bridged {
				facts = a.trailer
				if !bytes.HasPrefix(body, []byte(signOfLife[wire]+signOfLife[wire])) {
					t.Errorf("no signs of life: %q", body)
				}
				body = body[min(2*len(signOfLife[wire]), len(body)):]
			}
			if other == "" && string(body) != goodAnswer[wire] || other != "" && !c.translated(t, body) {
				t.Errorf("bridged %v: %q", bridged, a.body)
			}
			if facts.Get("Holdfast-Source") != "second" || facts.Get("Holdfast-Attempts") != "2" || !strings.HasPrefix(facts.Get("Holdfast-Trail"), "first; timeout") {
				t.Errorf("bridged %v: %v", bridged, facts)
			}
		}
	})
}

// A lead-in of more than limits.lead_in_bytes is not held. What was shown of it is a boundary like content: behind it comes the tier's own
// content, or one error, and no other tier.
func TestLeadInBeyondItsBound(t *testing.T) {
	const bound = 2048
	for _, wire := range wires {
		b := begunAs[wire]
		for name, end := range map[string]struct {
			bytes string
			tears bool
		}{
			"torn": {tears: true}, "torn inside an event": {b.before + `{"half`, true}, "closed": {}, "error": {b.before + failing[wire][0] + b.behind, false},
			"half an error": {b.before + failing[wire][0][:9], false}, "content": {b.content, true},
		} {
			if wire == "gemini-array" { // its first element has none before it
				end.bytes = strings.TrimPrefix(end.bytes, ",")
			}
			for _, after := range []string{"1h", "7s"} {
				t.Run(fmt.Sprint(wire, " ", name, " ", after), func(t *testing.T) {
					far := &leadsOn{wire: wire, most: bound + 200, end: func(w http.ResponseWriter) bool {
						_, _ = io.WriteString(w, end.bytes)
						return end.tears
					}}
					a, _ := leadInCall(t, far, "", ", bridge_after: "+after+", timeouts: {first_token: 2h, idle: 5s, attempt: 2h, total: 3h}",
						fmt.Sprintf("limits: {lead_in_bytes: %d}\n", bound))
					if a.status != 200 || bytes.Contains(a.body, []byte(goodText)) || hasContent(wire, a.body) != (name == "content") {
						t.Errorf("%d %q", a.status, tail(a.body))
					}
					if len(messagesIn(wire, a.body)) != 1 || heard(wire, a.body) != "" {
						t.Errorf("errors %q, %s: %q", messagesIn(wire, a.body), heard(wire, a.body), tail(a.body))
					}
				})
			}
		}
	}
}

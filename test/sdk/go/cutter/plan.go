package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// plan is what becomes of the first request under an id.
type plan struct {
	id, at, mark string
	fin          bool

	now      chan struct{} // closed by the command to cut
	requests int
	cut      bool
}

// plans are all plans by id; one lock, as there is little traffic.
type plans struct {
	mu      sync.Mutex
	byID    map[string]*plan
	changed chan struct{} // closed at each change
}

func newPlans() *plans { return &plans{byID: map[string]*plan{}, changed: make(chan struct{})} }

// update calls f with the plan of that id, made where there is none.
func (ps *plans) update(id string, f func(*plan)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byID[id]
	if p == nil {
		p = &plan{id: id, now: make(chan struct{})}
		ps.byID[id] = p
	}
	f(p)
	close(ps.changed)
	ps.changed = make(chan struct{})
}

// enter counts a request and returns its plan when it is the first under its id.
func (ps *plans) enter(header string) *plan {
	v, err := url.ParseQuery(header)
	if err != nil || v.Get("id") == "" {
		return nil
	}
	var first *plan
	ps.update(v.Get("id"), func(p *plan) {
		if p.requests++; p.requests == 1 {
			p.at, p.mark, p.fin = v.Get("at"), v.Get("mark"), v.Get("how") == "fin"
			first = p
		}
	})
	return first
}

// control serves the commands. An unmet wait is a 408.
func (ps *plans) control(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id, requests := q.Get("id"), 0
	if n := q.Get("requests"); n != "" {
		requests, _ = strconv.Atoi(n) // a misspelt number waits for nothing, and its test fails
	}
	if strings.HasSuffix(r.URL.Path, "/cut") {
		ps.update(id, func(p *plan) { close(p.now) })
	}
	ctx, stop := context.WithTimeout(r.Context(), 20*time.Second)
	defer stop()
	var seen struct {
		Requests int  `json:"requests"`
		Cut      bool `json:"cut"`
	}
	met := ps.await(ctx, id, func(p *plan) bool {
		seen.Requests, seen.Cut = p.requests, p.cut
		return p.requests >= requests && (p.cut || q.Get("cut") == "")
	})
	if !met {
		w.WriteHeader(http.StatusRequestTimeout)
	}
	_ = json.NewEncoder(w).Encode(seen) // a caller that left needs no answer
}

func (ps *plans) await(ctx context.Context, id string, ok func(*plan) bool) bool {
	for {
		ps.mu.Lock()
		changed, p := ps.changed, ps.byID[id]
		met := p != nil && ok(p)
		ps.mu.Unlock()
		if met {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// place is where the answer is to be cut, given its body up to now; -1 when that is further on.
func (p *plan) place(body []byte, events bool) int {
	switch p.at {
	case "byte":
		return len(body)
	case "mark":
		at := bytes.Index(body, []byte(p.mark))
		switch {
		case at < 0:
			return -1
		case !events:
			return at + len(p.mark)
		}
		for _, blank := range []string{"\n\n", "\r\n\r\n"} {
			if n := bytes.Index(body[at:], []byte(blank)); n >= 0 {
				return at + n + len(blank)
			}
		}
	}
	return -1
}

// commanded says that the cut was ordered by hand.
func (p *plan) commanded() bool {
	select {
	case <-p.now:
		return true
	default:
		return false
	}
}

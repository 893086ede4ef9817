package simulation

import (
	"slices"
	"strings"
	"time"
)

// grace is when a delivered answer is nobody's any more: delivery_grace, its tick, and what the network takes.
const grace = 2*time.Second + 250*time.Millisecond + 100*time.Millisecond

// adopted: an answer belongs to one client, and to another only because it was lost (semantics 19, 20).
func (c *checked) adopted() {
	byIntent := map[string][]*request{}
	for _, r := range c.requests {
		if id := r.intent(); id != "" && r.success() {
			byIntent[id] = append(byIntent[id], r)
		}
	}
	for id, list := range byIntent {
		c.exclusive(id, list)
		for _, first := range list {
			for _, r := range list {
				if !first.left && r.began.After(first.ended.Add(grace)) && !c.suffered(first.began, r.began) && !c.disturbed(first, r) {
					c.bad("semantics 19: an answer that had arrived was given again:\n%v\n%v", first, r)
				}
			}
		}
	}
}

// exclusive: an answer goes from one client to the next when the one's connection broke, or to one that counted more
// tries; so that of those who counted the same each got it behind another break.
func (c *checked) exclusive(id string, list []*request) {
	limit, led := 1, false
	for _, r := range c.requests {
		if r.left || !r.whole {
			limit++
		}
		led = led || r.success() && !r.left && r.intent() == id && r.header.Get("Holdfast-Source") != "replay"
	}
	if !led && limit > 1 {
		limit-- // the first client's own break began nothing: behind it the second client's turn begins
	}
	got := map[int]int{}
	for _, r := range list {
		if n := 0; !r.left {
			if r.counted {
				n = r.number
			}
			got[n]++
			if got[n] > limit && len(c.downs) == 0 {
				c.bad("semantics 20: %d clients have the answer of %s as try %d", got[n], id, n)
			}
		}
	}
}

// disturbed says that a request between two others may have adopted the first one's answer, on evidence, and lost it.
func (c *checked) disturbed(first, r *request) bool {
	return slices.ContainsFunc(c.requests, func(x *request) bool {
		return x != first && x != r && (x.counted || x.left || x.after > 0) && x.began.Before(r.began) && x.ended.After(first.began)
	})
}

// found: a client that loses its connection and asks again gets the first execution's answer.
func (c *checked) found() {
	if c.plan.faulty() || c.plan.Workers < 100 || len(c.op.Clients) != 1 || c.op.Workflow != "default" {
		return
	}
	for _, t := range c.op.Turns {
		if t.Do != works {
			return
		}
	}
	for _, t := range c.op.Clients[0].Tries { // what a slow client has not read when delivery_grace is over is taken for read
		if t.Slow > 0 || t.Fresh || t.Deadline > 0 || t.Timeout > 0 || t.Leave == dark || t.Leave == endless || t.Leave == closes {
			return
		}
	}
	for _, r := range c.requests {
		if strings.Contains(r.code(), "stream_lost") {
			return
		}
	}
	if len(c.calls) > 1 {
		c.bad("semantics 20: %d calls for one client that asked again", len(c.calls))
	}
}

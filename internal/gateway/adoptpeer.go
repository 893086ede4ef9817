package gateway

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// A request may repeat an operation whose client lost its connection to another gateway. What became of that connection only that
// gateway knows: it is asked, weighs the evidence as for a request of its own, and hands what it knows over. So of several requests
// that mean the same one adopts, wherever they come.

// adoptAsk asks a peer for an operation that a request repeats.
type adoptAsk struct {
	Key      string        `json:"key"`
	Who      string        `json:"who"`
	Workflow string        `json:"workflow"`
	Count    int           `json:"count,omitempty"`
	Resume   bool          `json:"resume,omitempty"`
	After    int           `json:"after,omitempty"`
	Fresh    bool          `json:"fresh,omitempty"` // adopt nothing, and end what nobody waits for
	Grace    time.Duration `json:"grace,omitempty"`
}

// adoptTold is the answer: an operation that is the asker's from now on, or an error that its key answers.
type adoptTold struct {
	Intent string        `json:"intent,omitempty"`
	Held   *Error        `json:"held,omitempty"`
	Reply  *relayedReply `json:"reply,omitempty"` // in place of Held: the provider's own error
	Since  time.Time     `json:"since,omitzero"`
	For    time.Duration `json:"for,omitempty"`
	Trail  string        `json:"trail,omitempty"`
	Lost   bool          `json:"lost,omitempty"` // several could be meant
}

type relayedReply struct {
	Intent string        `json:"intent"`
	Answer ledger.Answer `json:"answer"`
	Body   []byte        `json:"body"`
	At     time.Time     `json:"at"`
	Tries  int           `json:"tries"`
}

// serveAdopt weighs a peer's request as one of this gateway's own.
func (g *edition) serveAdopt(w http.ResponseWriter, r *http.Request, body []byte) {
	var ask adoptAsk
	wf := g.policy.Workflow("default")
	if json.Unmarshal(body, &ask) != nil || len(ask.Key) < 2 {
		http.NotFound(w, r)
		return
	}
	if named := g.policy.Workflow(ask.Workflow); named != nil {
		wf = named
	}
	raw, err := hex.DecodeString(ask.Who)
	if err != nil || len(raw) != 32 || wf == nil {
		http.NotFound(w, r)
		return
	}
	c := &call{g: g, r: r, wf: wf, key: ask.Key, count: ask.Count, resume: ask.Resume, after: ask.After, fresh: ask.Fresh}
	told := c.handOver([32]byte(raw))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(told) // who does not get it asks again, and finds it lost
}

// handOver gives the operation that c repeats to the gateway that asks, and forgets it here.
func (c *call) handOver(who [32]byte) (told adoptTold) {
	b := &c.g.sightings
	list := b.list(c.key)
	if c.fresh {
		c.abandonDrainsOf(list, who)
		return told
	}
	for _, s := range list {
		if h := s.heldFor(who); h != nil {
			return h.passedOn(s.id)
		}
	}
	if c.resume {
		if list = c.begun(list); resumable(list, who) > 1 {
			return adoptTold{Lost: true}
		}
	}
	s := c.predecessor(list, who)
	if s == nil && !c.resume {
		s = c.watchOpen(list, who)
	}
	if s == nil {
		return told
	}
	b.remove(s)
	return adoptTold{Intent: s.id}
}

func (h *held) passedOn(id string) adoptTold {
	t := adoptTold{Since: h.since, For: time.Until(h.until), Trail: h.trail}
	if h.reply != nil {
		t.Reply = &relayedReply{Intent: h.reply.id, Answer: h.reply.answer, Body: h.reply.body, At: h.reply.at, Tries: h.reply.tries}
		return t
	}
	fail := *h.fail
	fail.Err = nil
	if fail.Intent == "" {
		fail.Intent = id
	}
	t.Held = &fail
	return t
}

// adoptElsewhere looks for the operation that c repeats among those of other gateways. found says that c has its answer, or its way
// to it.
func (c *call) adoptElsewhere() (found bool, refusal *Error) {
	records := c.elsewhereLeft()
	if len(records) == 0 {
		return false, nil
	}
	var silent bool
	// One after the other: the first that knows of it hands it over, and is to be the only one that does.
	for _, owner := range c.g.others(c.r.Context(), records) {
		told, ok := c.askPeer(owner)
		switch {
		case !ok:
			silent = true
		case told.Lost:
			return true, errStreamLost
		case told.Held != nil || told.Reply != nil:
			return true, c.heldThere(told)
		case told.Intent != "":
			for _, r := range records {
				if r.ID == told.Intent {
					return true, c.takesOver(r)
				}
			}
		}
	}
	if r := c.byRecord(records, silent); r != nil {
		return true, c.takesOver(r)
	}
	return false, nil
}

// elsewhereLeft are the operations under c's key that other gateways have begun, and whose answers are not known to have arrived.
func (c *call) elsewhereLeft() (left []*ledger.Record) {
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	records, err := c.g.ledger.Derived(ctx, c.key, maxRecalled)
	if err != nil {
		return nil // the claim will say that the store is away
	}
	not := map[string]bool{}
	for _, s := range c.g.sightings.list(c.key) {
		not[s.id] = true
	}
	for _, r := range records {
		not[r.ParentID] = true // it has a successor, which has its attempts
	}
	for _, r := range records {
		if !not[r.ID] && r.JobID == "" && (r.LeaseOwner != c.g.log.Owner() || r.CreatedAt.Before(c.g.started)) {
			left = append(left, r)
		}
	}
	return left
}

// byRecord is the operation that c repeats by what is on record alone: one of an owner that is dead, whose deliveries read as lost
// (semantics 19), or of one that does not answer where the request says itself that an earlier try of it failed.
func (c *call) byRecord(records []*ledger.Record, silent bool) (it *ledger.Record) {
	for _, r := range records { // the newest first
		dead := r.LeaseOwner == "" || !c.g.lives(c.r.Context(), r.LeaseOwner)
		lost := dead && (adoptable(r) || r.State == ledger.Dispatched)
		if !lost && (!c.isRetry() || !silent && !dead) {
			continue
		}
		if c.resume && it != nil {
			return nil // of several nothing says which is meant
		}
		if it == nil {
			it = r
		}
	}
	return it
}

// takesOver makes an operation of another gateway this one's to deliver.
func (c *call) takesOver(r *ledger.Record) *Error {
	s := c.g.remembered(c, r)
	if !c.g.sightings.enterOnce(s) || !c.take(s, s.who, ledger.DeliveryLost, false) {
		return c.firstSight() // another request of this gateway was first
	}
	c.seen, c.turn = s, s.turn
	c.g.observer.Duplicate(c.wf.Name, "adopted")
	ctx, stop := context.WithTimeout(context.Background(), c.g.policy.Limits.CommitWait)
	defer stop()
	now, err := c.g.ledger.Get(ctx, r.ID)
	if err != nil {
		return c.storeAway(err)
	}
	s.refreshed(now)
	if !c.g.elsewhere(now) {
		return c.adoptRecord(s, now)
	}
	c.exec, c.leader = c.g.newExecution(c), true
	c.exec.key, c.exec.seen = now.ID, s
	if running := c.g.registry.join(now.ID, c.exec); running != nil {
		c.exec.cancel(nil)
		c.exec, c.leader, c.replay = running, false, true
		c.attend()
		return nil
	}
	c.exec.noteThere(c, now.ID)
	return c.followThere(now)
}

func (e *execution) noteThere(c *call, id string) {
	c.g.ledger.Enqueue(&ledger.Write{ID: id, Append: true, Relaxed: true, Events: []ledger.Event{c.stamped(adoption(c))}})
}

// heldThere gives the error again that another gateway's operation holds its key with (semantics 21).
func (c *call) heldThere(t adoptTold) *Error {
	c.g.observer.Duplicate(c.wf.Name, "held")
	h := &held{until: time.Now().Add(t.For), fail: t.Held, since: t.Since, trail: t.Trail}
	if p := t.Reply; p != nil {
		h.reply = &stored{fp: c.fp, id: p.Intent, answer: p.Answer, body: p.Body, at: p.At, tries: p.Tries}
	}
	return c.sayAgain(h)
}

// freshElsewhere ends, at other gateways, what is still made for nobody: a new answer to the same question is wanted.
func (c *call) freshElsewhere() {
	records := c.elsewhereLeft()
	running := false
	for _, r := range records {
		running = running || c.g.elsewhere(r)
	}
	if !running {
		return
	}
	for _, owner := range c.g.others(c.r.Context(), records) {
		_, _ = c.askPeer(owner)
	}
}

// askPeer asks one owner; ok is false where it does not answer.
func (c *call) askPeer(owner string) (told adoptTold, ok bool) {
	who := c.who()
	body, err := json.Marshal(adoptAsk{Key: c.key, Who: hex.EncodeToString(who[:]), Workflow: c.wf.Name, Count: c.count, Resume: c.resume,
		After: c.after, Fresh: c.fresh, Grace: c.wf.AdoptGrace})
	if err != nil {
		return told, false
	}
	ctx, stop := context.WithTimeout(c.r.Context(), peerWait)
	defer stop()
	resp, err := c.g.peers.Do(ctx, owner, http.MethodPost, peerPrefix+"adopt", nil, body)
	if err != nil {
		return told, false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || mutant.On("adopt-asks-nobody") {
		return told, false
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, frameMax)).Decode(&told)
	return told, err == nil
}

// enterOnce enters s unless its operation is in the book.
func (b *sightings) enterOnce(s *sighting) bool {
	sh := b.shard(s.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.of(s.key)
	for _, x := range l.all {
		if x.id == s.id {
			return false
		}
	}
	l.all = append(l.all[:len(l.all):len(l.all)], s)
	return true
}

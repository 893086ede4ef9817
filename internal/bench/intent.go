package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// writer makes the writes of direct calls, as the gateway does.
type writer struct {
	l    ledger.Ledger
	made atomic.Uint64
}

// answerBody is the answer of a short conversation: 650 B.
var answerBody = bytes.Repeat([]byte(`{"id":"chatcmpl-1","object":"x"}`), 21)[:650]

// id is a UUID of version 7 in the order of n.
func id(n uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], 0x019f<<48|n>>12<<16|0x7000|n&0xfff)
	binary.BigEndian.PutUint64(b[8:], 1<<63|n*0x9e3779b97f4a7c15>>2) // spread, under the variant's bits
	text := make([]byte, 0, 36)
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, b[[...]int{0, 4, 6, 8, 10}[i]:end])
	}
	return string(text)
}

const (
	benchRoute = "openai/gpt-5-mini/chat.completions/7f3a"
	benchOwner = "019f0000-0000-7000-8000-000000000001" // of the leases, a UUID as an engine's
)

// claim is what a direct call writes before it is sent: claim and dispatched in one.
func (w *writer) claim() *ledger.Write {
	now, n := w.l.Now(), w.made.Add(1)
	hash := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
	key := "idem:production:main:key:" + hex.EncodeToString(hash[:16])
	return &ledger.Write{
		Insert: &ledger.Intent{
			ID: id(n), Tenant: "main", Workflow: "default", Effect: ledger.EffectGeneration, Key: key, Explicit: true,
			Fingerprint: hash, Method: "POST", Path: chatPath, Provider: "openai", Endpoint: "chat.completions",
			RequestedModel: "gpt-5-mini", MaxAttempts: 3, PolicyRevision: "3f2a9c1b", CreatedAt: now,
		},
		ClaimKey: key,
		Status: ledger.Status{
			Version: 1, State: ledger.Dispatched, Outcome: ledger.OutcomePending, Visibility: ledger.VisBefore, Attempt: 1,
			RouteKey: benchRoute, ServedModel: "gpt-5-mini", Tier: "default", ExpiresAt: now.Add(10 * time.Minute),
			LeaseOwner: benchOwner, UpdatedAt: now,
		},
		Events: []ledger.Event{
			{At: now, Kind: "transition", To: ledger.Created, Actor: "engine"},
			{At: now, Kind: "transition", From: ledger.Created, To: ledger.Dispatched, Actor: "engine"},
			{At: now, Kind: "attempt", Actor: "engine", Attempt: 1, Route: benchRoute, Tier: "default"},
		},
	}
}

// settle is what it writes after the answer to claim.
func (w *writer) settle(claim *ledger.Write) *ledger.Write {
	now := w.l.Now()
	s := &ledger.Write{
		ID: claim.Insert.ID, Version: 1, Status: claim.Status, Settle: true, HeldKey: claim.ClaimKey, Relaxed: true,
		Claim: ledger.ClaimKeep, ClaimUntil: now.Add(30 * time.Minute),
		Answer: &ledger.Answer{HTTPStatus: 200, Header: map[string][]string{"Content-Type": {"application/json"}}, Source: "default", HasBody: true},
		Bodies: []ledger.Body{{Kind: ledger.BodyAnswer, ContentType: "application/json", Data: answerBody}},
		Events: []ledger.Event{
			{At: now, Kind: "attempt_end", Actor: "engine", Attempt: 1, End: ledger.AttemptSuccess, Status: 200},
			{At: now, Kind: "transition", From: ledger.Dispatched, To: ledger.Confirmed, Actor: "engine"},
			{At: now, Kind: "transition", From: ledger.Confirmed, To: ledger.Settled, Actor: "engine"},
		},
	}
	s.Status.Version, s.Status.State, s.Status.Outcome = 2, ledger.Settled, ledger.OutcomeSuccess
	s.Status.Visibility, s.Status.UsageIn, s.Status.UsageOut, s.Status.UpdatedAt = ledger.VisComplete, 120, 80, now
	return s
}

func (w *writer) commit(ctx context.Context, one *ledger.Write) error {
	return ledger.Commit(ctx, w.l, one)
}

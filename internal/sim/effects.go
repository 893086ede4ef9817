package sim

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Effect is one thing that happened on the far side: a generation that was run, or a write of a tool.
type Effect struct {
	Execution int64     `json:"execution"` // its number; the answer names it
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Op        string    `json:"op,omitempty"`
	Key       string    `json:"idempotency_key,omitempty"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Call      int64     `json:"call"`
	BodyHash  string    `json:"body_sha256"`
	Visible   time.Time `json:"visible,omitzero"` // look-ups find it from then on
	// Body is kept for look-ups by a tool's own fields; longer ones are not.
	Body json.RawMessage `json:"body,omitempty"`
}

const (
	maxEffects    = 200_000
	maxEffectBody = 4 << 10
)

// effectLog is the far side's memory.
type effectLog struct {
	mu    sync.Mutex
	now   func() time.Time
	dedup time.Duration
	file  *os.File
	next  int64
	list  []Effect
	keys  map[string]deduped
}

type deduped struct {
	effect  Effect
	expires time.Time
}

func newEffectLog(dedup time.Duration, now func() time.Time) *effectLog {
	return &effectLog{dedup: dedup, now: now, keys: map[string]deduped{}}
}

// open continues an existing file: a simulator that is restarted remembers what it did.
func (l *effectLog) open(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("sim: effects file (name a writable place with --effects): %w", err)
	}
	end, err := l.replay(f)
	if err == nil {
		err = f.Truncate(end) // a line torn by a crash was never answered
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sim: effects file %s: %w", name, err), f.Close())
	}
	l.file = f
	return nil
}

func (l *effectLog) replay(f io.Reader) (end int64, err error) {
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		var e Effect
		if err := json.Unmarshal(line, &e); err != nil {
			return end, fmt.Errorf("byte %d is not an effect (move the file away to begin anew): %w", end, err)
		}
		end += int64(len(line))
		l.next = max(l.next, e.Execution)
		l.keep(e)
	}
}

func (l *effectLog) keep(e Effect) {
	if len(l.list) >= maxEffects {
		l.list = slices.Delete(l.list, 0, maxEffects/10)
	}
	l.list = append(l.list, e)
	if e.Key != "" && l.dedup > 0 {
		l.keys[e.Key] = deduped{e, e.Time.Add(l.dedup)}
	}
}

func (l *effectLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.keys = nil, map[string]deduped{}
}

func (l *effectLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// number takes the number of an execution that has no effect.
func (l *effectLog) number() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next
}

// errKeyReused is a key that comes with another body.
var errKeyReused = errors.New("sim: the Idempotency-Key was used with another request")

// perform lets the effect happen, or finds the one that the key already had. On return the effect is on the disk.
func (l *effectLog) perform(q *request, call int64, visible time.Duration) (e Effect, fresh bool, err error) {
	hash := sha256.Sum256(q.body)
	e = Effect{Op: q.op, Key: q.key, Method: q.method, Path: q.path, Call: call, BodyHash: hex.EncodeToString(hash[:])}
	if q.wire == wireTool && len(q.body) <= maxEffectBody && gjson.ValidBytes(q.body) && gjson.ParseBytes(q.body).IsObject() {
		var b bytes.Buffer
		if json.Compact(&b, q.body) == nil {
			e.Body = b.Bytes()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if old, ok := l.keys[q.key]; ok && q.key != "" && l.dedup > 0 && now.Before(old.expires) {
		if old.effect.BodyHash != e.BodyHash || old.effect.Path != e.Path {
			return old.effect, false, errKeyReused
		}
		return old.effect, false, nil
	}
	l.next++
	e.Execution, e.Time, e.ID = l.next, now, ident("eff_", 16, l.next)
	if visible > 0 {
		e.Visible = now.Add(visible)
	}
	if err := l.write(e); err != nil {
		return e, false, err
	}
	l.keep(e)
	return e, true, nil
}

func (l *effectLog) write(e Effect) error {
	if l.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

// all lists the effects of an operation, or all of them.
func (l *effectLog) all(op string) []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Effect{}
	for _, e := range l.list {
		if op == "" || e.Op == op {
			out = append(out, e)
		}
	}
	return out
}

// find lists the visible effects that ok accepts.
func (l *effectLog) find(ok func(*Effect) bool) []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	out := []Effect{}
	for i := range l.list {
		e := &l.list[i]
		if !now.Before(e.Visible) && ok(e) {
			out = append(out, *e)
		}
	}
	return out
}

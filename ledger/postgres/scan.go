package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// columnReader reads the columns of a row in order, in the binary format of the wire; NULL is the zero value. What it returns is the caller's.
type columnReader struct {
	values [][]byte
	n      int
}

func (c *columnReader) raw() []byte { c.n++; return c.values[c.n-1] }

func (c *columnReader) text() string { return string(c.raw()) }
func (c *columnReader) id() string {
	var id uuid
	copy(id[:], c.raw())
	return id.String()
}
func (c *columnReader) bytes() []byte { return append([]byte(nil), c.raw()...) }
func (c *columnReader) bool() bool    { v := c.raw(); return len(v) == 1 && v[0] != 0 }

func (c *columnReader) time() time.Time { return stored.FromMicros(c.int()) }

func (c *columnReader) float() float64 {
	if v := c.raw(); len(v) == 8 {
		return math.Float64frombits(binary.BigEndian.Uint64(v))
	}
	return 0
}

// int reads an integer of any width.
func (c *columnReader) int() int64 {
	switch v := c.raw(); len(v) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

// packed reads bodyColumns, or inlineColumns.
func (c *columnReader) packed() stored.Packed {
	p := stored.Packed{ContentType: c.text(), Packed: c.bool(), Size: int(c.int()), Digest: c.int()}
	if p.Data = c.raw(); !p.Packed {
		p.Data = append([]byte{}, p.Data...)
	}
	return p
}

// columns counts the columns of a list.
func columns(list string) int { return strings.Count(list, ",") + 1 }

// scanRecord reads a row of selectRecord.
func scanRecord(values [][]byte) (*ledger.Record, error) {
	rec := &ledger.Record{}
	c := &columnReader{values: values}
	c.intent(&rec.Intent)
	if values[c.n] != nil {
		c.status(&rec.Status)
		return rec, nil
	}
	c.n += columns(statusColumns)
	if values[c.n] == nil {
		return nil, fmt.Errorf("intent %s has neither an open nor a result row; run `holdfast store verify`", rec.ID)
	}
	c.status(&rec.Status)
	rec.SettledAt, rec.ClaimUntil = c.time(), c.time()
	if values[c.n] == nil {
		return rec, nil
	}
	a := &ledger.Answer{HTTPStatus: int(c.int())}
	if h := c.raw(); h != nil {
		if err := json.Unmarshal(h, &a.Header); err != nil {
			return nil, fmt.Errorf("intent %s: stored header is damaged: %w", rec.ID, err)
		}
	}
	a.Source, a.Events, a.HasBody = c.text(), int(c.int()), c.bool()
	rec.Answer = a
	return rec, nil
}

func (c *columnReader) intent(i *ledger.Intent) {
	i.ID = c.id()
	i.CreatedAt = c.time()
	i.Tenant, i.Workflow, i.Key = c.text(), c.text(), c.text()
	i.JobID, i.OwnerKey = c.text(), c.text()
	i.Effect = ledger.Effect(c.int())
	i.Hold, i.Explicit = c.bool(), c.bool()
	c.n += 2 // claimed, claim_key
	copy(i.Fingerprint[:], c.raw())
	i.Method, i.Path, i.Provider, i.Endpoint = c.text(), c.text(), c.text(), c.text()
	i.RequestedModel, i.Stream, i.Priority = c.text(), c.bool(), c.text()
	i.MaxAttempts, i.FallbackOK = int(c.int()), c.text()
	i.EstimatedCost = c.float()
	i.PolicyRevision, i.Trigger, i.ParentID, i.Callback = c.text(), c.text(), c.text(), c.text()
}

func (c *columnReader) status(s *ledger.Status) {
	s.Version = c.int()
	s.State, s.Outcome = ledger.State(c.int()), ledger.Outcome(c.int())
	s.Lane = c.text()
	s.Visibility, s.Delivery = ledger.Visibility(c.int()), ledger.Delivery(c.int())
	s.Attempt, s.Crashes = int(c.int()), int(c.int())
	s.RouteKey, s.ServedModel, s.Tier = c.text(), c.text(), c.text()
	s.ReadyAt, s.ExpiresAt = c.time(), c.time()
	s.RetryAfter = time.Duration(c.int()) * time.Microsecond
	s.LeaseOwner, s.LeaseUntil = c.text(), c.time()
	s.Partial, s.BilledMaybe, s.LastError = c.bool(), int(c.int()), c.text()
	s.UsageIn, s.UsageOut = c.int(), c.int()
	s.UpdatedAt = c.time()
}

package postgres

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// The object ids of Postgres's own types (src/include/catalog/pg_type.dat).
const (
	oidBool   = 16
	oidBytea  = 17
	oidInt8   = 20
	oidInt2   = 21
	oidInt4   = 23
	oidText   = 25
	oidJSON   = 114
	oidFloat8 = 701
	oidUUID   = 2950
)

const arrayHeader = 20

// rows is one parameter of a statement: an array of rows of one of our types, in the binary format of the wire (array_recv and record_recv
// in Postgres's sources). One array of rows costs the server a fraction of what an array for each column does.
type rows struct {
	buf    []byte
	n      uint32
	open   int // where the row that is being written begins
	fields uint32
}

// reset begins an empty array of a type.
func (r *rows) reset(oid uint32) {
	b := append(r.buf[:0], make([]byte, arrayHeader)...)
	binary.BigEndian.PutUint32(b[0:], 1) // dimensions
	binary.BigEndian.PutUint32(b[8:], oid)
	binary.BigEndian.PutUint32(b[16:], 1) // the first index
	r.buf, r.n = b, 0
}

// param is the whole array.
func (r *rows) param() []byte {
	binary.BigEndian.PutUint32(r.buf[12:], r.n)
	return r.buf
}

func (r *rows) begin() {
	r.open, r.fields = len(r.buf), 0
	r.n++
	r.buf = append(r.buf, 0, 0, 0, 0, 0, 0, 0, 0) // length, number of fields
}

func (r *rows) end() {
	binary.BigEndian.PutUint32(r.buf[r.open:], uint32(len(r.buf)-r.open-4))
	binary.BigEndian.PutUint32(r.buf[r.open+4:], r.fields)
}

func (r *rows) field(oid uint32, size int32) {
	r.fields++
	r.buf = binary.BigEndian.AppendUint32(r.buf, oid)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(size))
}

func (r *rows) null(oid uint32) { r.field(oid, -1) }

// Zero values are NULL: they cost no byte in a table, and most columns of most rows are zero.

func (r *rows) text(v string) {
	if v == "" {
		r.null(oidText)
		return
	}
	v = clean(v)
	r.field(oidText, int32(len(v)))
	r.buf = append(r.buf, v...)
}

func (r *rows) bytes(oid uint32, v []byte) {
	if v == nil {
		r.null(oid)
		return
	}
	r.field(oid, int32(len(v)))
	r.buf = append(r.buf, v...)
}

func (r *rows) id(v uuid) { r.bytes(oidUUID, v[:]) }

func (r *rows) bool(v bool) {
	if !v {
		r.null(oidBool)
		return
	}
	r.field(oidBool, 1)
	r.buf = append(r.buf, 1)
}

// number writes v, zero too.
func (r *rows) number(v int64) {
	r.field(oidInt8, 8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(v))
}

func (r *rows) int8(v int64) {
	if v == 0 {
		r.null(oidInt8)
		return
	}
	r.number(v)
}

// number4 writes v, zero too. What does not fit is as large as fits: these are counts that nobody reaches.
func (r *rows) number4(v int) {
	r.field(oidInt4, 4)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(int32(min(max(v, math.MinInt32), math.MaxInt32))))
}

func (r *rows) int4(v int) {
	if v == 0 {
		r.null(oidInt4)
		return
	}
	r.number4(v)
}

func (r *rows) int2(v uint8) {
	if v == 0 {
		r.null(oidInt2)
		return
	}
	r.field(oidInt2, 2)
	r.buf = append(r.buf, 0, v)
}

func (r *rows) float(v float64) {
	if v == 0 {
		r.null(oidFloat8)
		return
	}
	r.field(oidFloat8, 8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, math.Float64bits(v))
}

func (r *rows) time(v time.Time) { r.int8(stored.Micros(v)) }

// clean is v as Postgres takes a text: valid UTF-8 without a zero byte. Callers send what they like, and one of them must not undo what
// others write in the same transaction.
func clean(v string) string {
	if utf8.ValidString(v) && strings.IndexByte(v, 0) < 0 {
		return v
	}
	return strings.ReplaceAll(strings.ToValidUTF8(v, "\uFFFD"), "\x00", "\uFFFD")
}

func (r *rows) intent(i *ledger.Intent, claim string) {
	r.number(stored.Micros(i.CreatedAt))
	r.text(i.Tenant)
	r.text(i.Workflow)
	r.text(i.Key)
	r.text(i.JobID)
	r.text(i.OwnerKey)
	r.int2(uint8(i.Effect))
	r.bool(i.Hold)
	r.bool(i.Explicit)
	r.bool(claim != "")
	if claim == i.Key {
		r.null(oidText)
	} else {
		r.text(claim)
	}
	if i.Fingerprint == [32]byte{} {
		r.null(oidBytea)
	} else {
		r.bytes(oidBytea, i.Fingerprint[:])
	}
	r.text(i.Method)
	r.text(i.Path)
	r.text(i.Provider)
	r.text(i.Endpoint)
	r.text(i.RequestedModel)
	r.bool(i.Stream)
	r.text(i.Priority)
	r.int4(i.MaxAttempts)
	r.text(i.FallbackOK)
	r.float(i.EstimatedCost)
	r.text(i.PolicyRevision)
	r.text(i.Trigger)
	r.text(i.ParentID)
	r.text(i.Callback)
}

func (r *rows) status(s *ledger.Status) {
	r.number(s.Version)
	r.int2(uint8(s.State))
	r.int2(uint8(s.Outcome))
	r.text(s.Lane)
	r.int2(uint8(s.Visibility))
	r.int2(uint8(s.Delivery))
	r.int4(s.Attempt)
	r.int4(s.Crashes)
	r.text(s.RouteKey)
	r.text(s.ServedModel)
	r.text(s.Tier)
	r.time(s.ReadyAt)
	r.time(s.ExpiresAt)
	r.int8(s.RetryAfter.Microseconds())
	r.text(s.LeaseOwner)
	r.time(s.LeaseUntil)
	r.bool(s.Partial)
	r.int4(s.BilledMaybe)
	r.text(s.LastError)
	r.int8(s.UsageIn)
	r.int8(s.UsageOut)
	r.time(s.UpdatedAt)
}

func (r *rows) answer(a *ledger.Answer, header []byte) {
	if a == nil {
		r.null(oidInt4)
		r.null(oidJSON)
		r.null(oidText)
		r.null(oidInt4)
		r.null(oidBool)
		return
	}
	r.number4(a.HTTPStatus) // present, even as 0: an answer was kept
	r.bytes(oidJSON, header)
	r.text(a.Source)
	r.int4(a.Events)
	r.bool(a.HasBody)
}

// body writes bodyColumns.
func (r *rows) body(p *stored.Packed) {
	if p == nil {
		r.null(oidText)
		r.null(oidBool)
		r.null(oidInt4)
		r.null(oidInt8)
		r.null(oidBytea)
		return
	}
	r.text(p.ContentType)
	r.bool(p.Packed)
	r.number4(p.Size)
	r.number(p.Digest)
	r.bytes(oidBytea, p.Data)
}

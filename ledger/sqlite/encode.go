package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/s2"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// packOver is the size over which a body is compressed: below it S2 saves nothing worth its time.
const packOver = 2 << 10

// inlineMax is the size up to which an answer stands in the row of its result, which then still fits on a page
// together with its events.
const inlineMax = 3 << 10

// micros is a stored time; 0 stands for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// item is one entry of the writer's queue: a Write made ready for binding in its caller's goroutine, or a
// piece of upkeep that shares the transaction.
type item struct {
	w      *ledger.Write
	events []byte
	header []byte
	bodies []packedBody
	inline *packedBody // the answer of a settling, when it is small enough for the result's row

	claim   []byte // digest of the key to claim, or that is held
	derived []byte // digest of the derived key to index, or to take out of the index

	fn  func(*session) error // instead of w; it may run twice, the first time in a transaction that is undone
	err error                // of fn

	beside *item // an insertion that goes with this write
	of     *item // of such an insertion: the write

	place int64 // of an insertion: where its rows go
	shift int64 // how many places further on, because others stand there

	refused error // verdict inside the running transaction, told when it is durable
	size    int64
}

type packedBody struct {
	kind        ledger.BodyKind
	contentType string
	packed      bool
	size        int
	digest      int64 // of the body as it was given; 0: not known
	data        []byte
}

// encode checks w's shape and does the work that needs no connection.
func encode(w *ledger.Write) (*item, error) {
	it := &item{w: w}
	switch {
	case w.Append:
		if w.Insert != nil || w.ID == "" {
			return nil, errors.New("sqlite: an append needs the id of an intent and inserts none")
		}
	case w.Lease:
		if w.Insert != nil || w.ID == "" || w.Version < 1 || w.Status.Version != w.Version || w.Status.LeaseOwner == "" || w.Settle ||
			len(w.Events) > 0 || len(w.Bodies) > 0 || len(w.Cached) > 0 {
			return nil, errors.New("sqlite: a lease needs an id, its version and an owner, and writes nothing else")
		}
		return &item{w: w, size: 256}, nil
	case w.Insert != nil && (w.Insert.ID == "" || w.ID != "" || w.Status.Version != 1):
		return nil, fmt.Errorf("sqlite: an insert needs an id of its own and status version 1, has version %d", w.Status.Version)
	case w.Insert == nil && (w.ID == "" || w.Version < 1 || w.Status.Version != w.Version+1):
		return nil, fmt.Errorf("sqlite: a change needs an id and goes from a version to the next, not %d to %d",
			w.Version, w.Status.Version)
	case w.Settle != (w.Status.State == ledger.Settled):
		return nil, fmt.Errorf("sqlite: state %s and settle=%t contradict each other", w.Status.State, w.Settle)
	}
	var err error
	if it.events, err = appendEvents(nil, w.Events); err != nil {
		return nil, err
	}
	if w.Answer != nil && len(w.Answer.Header) > 0 {
		it.header = appendHeader(nil, w.Answer.Header)
	}
	it.size = int64(len(it.events)+len(it.header)) + 1024
	for i := range w.Bodies {
		if k := w.Bodies[i].Kind; k < ledger.BodyRequest || k > 7 {
			return nil, fmt.Errorf("sqlite: no place for a body of kind %d", k)
		}
		p := pack(&w.Bodies[i])
		it.size += int64(len(p.data))
		if w.Settle && p.kind == ledger.BodyAnswer && len(p.data) <= inlineMax {
			it.inline = &p
		} else {
			it.bodies = append(it.bodies, p)
		}
	}
	if err := it.checkCached(); err != nil {
		return nil, err
	}
	it.digestKeys()
	return it, it.encodeBeside()
}

func (it *item) encodeBeside() (err error) {
	b := it.w.Beside
	if b == nil {
		return nil
	}
	if it.w.Append || b.Insert == nil || b.Append || b.Settle || b.ClaimKey != "" || b.DerivedKey != "" || b.Beside != nil {
		return errors.New("sqlite: beside a write goes one insertion without a key, unsettled and alone")
	}
	if it.beside, err = encode(b); err != nil {
		return err
	}
	it.beside.of = it
	it.size += it.beside.size
	return nil
}

func (it *item) digestKeys() {
	w := it.w
	switch {
	case w.Insert != nil:
		it.claim, it.derived, it.place = digestOf(w.ClaimKey), digestOf(w.DerivedKey), placeOf(w.Insert.ID)
	case w.Append:
		it.derived = digestOf(w.Unindex)
	default:
		it.claim = digestOf(w.HeldKey)
	}
}

// scratch is where bodies are compressed: what comes out is a fraction of the room that it may need.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// scratchOver is the size of body over which the room is not kept: such are rare.
const scratchOver = 2 << 20

// compress returns data compressed, or as it is where that is no shorter.
func compress(data []byte) (packed bool, _ []byte) {
	room := new([]byte)
	if len(data) <= scratchOver {
		room = scratch.Get().(*[]byte)
		defer scratch.Put(room)
	}
	if need := s2.MaxEncodedLen(len(data)); cap(*room) < need {
		*room = make([]byte, need)
	}
	c := s2.Encode(*room, data)
	if len(c) >= len(data) {
		return false, data
	}
	return true, bytes.Clone(c)
}

func pack(b *ledger.Body) packedBody {
	p := packedBody{kind: b.Kind, contentType: b.ContentType, size: len(b.Data), digest: checksum(b.ContentType, b.Data), data: b.Data}
	if len(b.Data) > packOver {
		p.packed, p.data = compress(b.Data)
	}
	if p.data == nil {
		p.data = []byte{} // an empty body is stored; NULL would not be one
	}
	return p
}

// castagnoli is what disks and protocols protect their blocks with; processors have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the digest of a body: the CRC-32C of its content type, a zero byte and its bytes before they were
// packed, with bit 32 set, so that none is 0. It tells a body that changed by accident, on the disk or on its way
// through us; it is no proof against somebody who means to change one.
func checksum(contentType string, data []byte) int64 {
	sum := ^uint32(0)
	for i := range len(contentType) { // as crc32.Update does, which would need a copy of the text
		sum = castagnoli[byte(sum)^contentType[i]] ^ sum>>8
	}
	sum = castagnoli[byte(sum)] ^ sum>>8 // the zero byte
	return 1<<32 | int64(crc32.Update(^sum, castagnoli, data))
}

// unpack restores a body and holds it to its digest.
func unpack(p packedBody) (*ledger.Body, error) {
	b := &ledger.Body{Kind: p.kind, ContentType: p.contentType, Data: p.data}
	if p.packed {
		n, err := s2.DecodedLen(p.data)
		if err != nil || n != p.size {
			return nil, fmt.Errorf("stored body is damaged: %d bytes where %d are recorded: %w", n, p.size, err)
		}
		if b.Data, err = s2.Decode(make([]byte, 0, n), p.data); err != nil {
			return nil, fmt.Errorf("stored body is damaged: %w", err)
		}
	}
	if len(b.Data) != p.size {
		return nil, fmt.Errorf("stored body is damaged: it has %d bytes and is not as long as it was, %d", len(b.Data), p.size)
	}
	if p.digest != 0 && p.digest != checksum(b.ContentType, b.Data) && !mutant.On("unchecked-body") {
		return nil, errors.New("stored body is damaged: its bytes are not those that were kept; restore the store from a backup")
	}
	return b, nil
}

// appendEvents writes events as a JSON array, as encoding/json would but several times faster, and without what the
// first one says for all: time and actor stand in the others only where they differ. An empty list is nil, which is
// stored as NULL.
func appendEvents(b []byte, events []ledger.Event) ([]byte, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if b == nil {
		b = make([]byte, 0, 160*len(events))
	}
	b = append(b, '[')
	for i := range events {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendEvent(b, &events[i], &events[0]); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendEvent(b []byte, e, first *ledger.Event) ([]byte, error) {
	b = appendString(append(b, `{"kind":`...), e.Kind)
	if e == first || !e.At.Equal(first.At) {
		b = append(b, `,"at":"`...)
		b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if e == first || e.Actor != first.Actor {
		b = appendField(b, "actor", e.Actor, e != first)
	}
	if e.From != 0 {
		b = appendField(b, "from", e.From.String(), true)
	}
	if e.To != 0 {
		b = appendField(b, "to", e.To.String(), true)
	}
	b = appendField(b, "reason", e.Reason, false)
	b = appendField(b, "rule", e.Rule, false)
	b = appendInt(b, "attempt", e.Attempt)
	b = appendField(b, "route", e.Route, false)
	b = appendField(b, "tier", e.Tier, false)
	if e.End != 0 {
		b = appendField(b, "end", e.End.String(), true)
	}
	b = appendInt(b, "status", e.Status)
	if e.Billed {
		b = append(b, `,"possibly_billed":true`...)
	}
	b = appendField(b, "error", e.Error, false)
	if len(e.Evidence) > 0 {
		if !json.Valid(e.Evidence) {
			return nil, fmt.Errorf("sqlite: event %q carries evidence that is not JSON", e.Kind)
		}
		b = append(append(b, `,"evidence":`...), e.Evidence...)
	}
	return append(b, '}'), nil
}

// appendHeader writes h as the JSON object that encoding/json would.
func appendHeader(b []byte, h map[string][]string) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(h)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':', '[')
		for j, value := range h[name] {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendString(b, value)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendField(b []byte, name, value string, always bool) []byte {
	if value == "" && !always {
		return b
	}
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return appendString(b, value)
}

func appendInt(b []byte, name string, v int) []byte {
	if v == 0 {
		return b
	}
	b = append(append(append(b, ',', '"'), name...), '"', ':')
	return strconv.AppendInt(b, int64(v), 10)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(s)
			if err != nil { // a string always marshals
				quoted = []byte(`""`)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// storedEvent is an event as appendEvents writes it.
type storedEvent struct {
	ledger.Event
	At    *time.Time `json:"at"`
	Actor *string    `json:"actor"`
}

func decodeEvents(to []ledger.Event, text []byte) ([]ledger.Event, error) {
	if len(text) == 0 {
		return to, nil
	}
	var events []storedEvent
	if err := json.Unmarshal(text, &events); err != nil {
		return to, fmt.Errorf("stored events are damaged: %w", err)
	}
	first := len(to)
	for i := range events {
		e := events[i].Event
		if i > 0 {
			e.At, e.Actor = to[first].At, to[first].Actor
		}
		if at := events[i].At; at != nil {
			e.At = *at
		}
		if actor := events[i].Actor; actor != nil {
			e.Actor = *actor
		}
		to = append(to, e)
	}
	return to, nil
}

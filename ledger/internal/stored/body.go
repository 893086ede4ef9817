package stored

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/s2"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
)

// PackOver is the size over which a body is compressed: below it S2 saves nothing worth its time.
const PackOver = 2 << 10

// Packed is a body as it is stored.
type Packed struct {
	Kind        ledger.BodyKind
	ContentType string
	Packed      bool
	Size        int
	Digest      int64 // of the body as it was given; 0: not known
	Data        []byte
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

// Pack makes a body ready to be stored.
func Pack(b *ledger.Body) Packed {
	p := Packed{Kind: b.Kind, ContentType: b.ContentType, Size: len(b.Data), Digest: Checksum(b.ContentType, b.Data), Data: b.Data}
	if len(b.Data) > PackOver {
		p.Packed, p.Data = compress(b.Data)
	}
	if p.Data == nil {
		p.Data = []byte{} // an empty body is stored; NULL would not be one
	}
	return p
}

// castagnoli is what disks and protocols protect their blocks with; processors have an instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the digest of a body: the CRC-32C of its content type, a zero byte and its bytes before they were
// packed, with bit 32 set, so that none is 0. It tells a body that changed by accident, on the disk or on its way
// through us; it is no proof against somebody who means to change one.
func Checksum(contentType string, data []byte) int64 {
	sum := ^uint32(0)
	for i := range len(contentType) { // as crc32.Update does, which would need a copy of the text
		sum = castagnoli[byte(sum)^contentType[i]] ^ sum>>8
	}
	sum = castagnoli[byte(sum)] ^ sum>>8 // the zero byte
	return 1<<32 | int64(crc32.Update(^sum, castagnoli, data))
}

// Unpack restores a body and holds it to its digest.
func Unpack(p Packed) (*ledger.Body, error) {
	b := &ledger.Body{Kind: p.Kind, ContentType: p.ContentType, Data: p.Data}
	if p.Packed {
		n, err := s2.DecodedLen(p.Data)
		if err != nil || n != p.Size {
			return nil, fmt.Errorf("stored body is damaged: %d bytes where %d are recorded: %w", n, p.Size, err)
		}
		if b.Data, err = s2.Decode(make([]byte, 0, n), p.Data); err != nil {
			return nil, fmt.Errorf("stored body is damaged: %w", err)
		}
	}
	if len(b.Data) != p.Size {
		return nil, fmt.Errorf("stored body is damaged: it has %d bytes and is not as long as it was, %d", len(b.Data), p.Size)
	}
	if p.Digest != 0 && p.Digest != Checksum(b.ContentType, b.Data) && !mutant.On("unchecked-body") {
		return nil, errors.New("stored body is damaged: its bytes are not those that were kept; restore the store from a backup")
	}
	return b, nil
}

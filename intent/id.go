package intent

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// ids makes UUIDs of version 7 (RFC 9562 §5.7) whose order is the order of creation in this process: the
// 12 bits of rand_a are a counter, and the time never steps back.
type ids struct{ last atomic.Uint64 }

// IDAt is before every id that is made at a time, and behind every one of before.
func IDAt(t time.Time) string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], uint64(max(t.UnixMilli(), 0))<<16|0x7000)
	u[8] = 2 << 6
	return textOf(u)
}

func (g *ids) next(now time.Time) string {
	stamp := uint64(now.UnixMilli()) << 12
	for {
		last := g.last.Load()
		if stamp <= last {
			stamp = last + 1
		}
		if g.last.CompareAndSwap(last, stamp) {
			break
		}
	}
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], stamp>>12<<16|0x7000|stamp&0xfff)
	binary.BigEndian.PutUint64(u[8:], rand.Uint64()&^(3<<62)|2<<62)
	return textOf(u)
}

func textOf(u [16]byte) string {
	var text [36]byte
	for i, at, from := 0, 0, 0; i < 5; i++ {
		n := [5]int{4, 2, 2, 2, 6}[i]
		hex.Encode(text[at:], u[from:from+n])
		at, from = at+2*n, from+n
		if i < 4 {
			text[at] = '-'
			at++
		}
	}
	return string(text[:])
}

package bulkhead

// word is the whole state of a semaphore but for those that wait: whether any do, the limit, the slots in use by
// Batch, and all slots in use. One word, so that Try and Release are one compare-and-swap each and no one sees a
// count and a limit that did not hold together.
//
//	63      62 … 42   41 … 21   20 … 0
//	waited  max       batch     used
type word uint64

const (
	fieldBits = 21
	fieldMask = 1<<fieldBits - 1

	oneUsed    word = 1
	oneBatch   word = 1 << fieldBits
	maxShift        = 2 * fieldBits
	waitedFlag word = 1 << (3 * fieldBits)
)

func (w word) used() int    { return int(w & fieldMask) }
func (w word) batch() int   { return int(w >> fieldBits & fieldMask) }
func (w word) max() int     { return int(w >> maxShift & fieldMask) }
func (w word) waited() bool { return w&waitedFlag != 0 }

func (w word) take(c Class) word {
	if c == Interactive {
		return w + oneUsed
	}
	return w + oneUsed + oneBatch
}

func (w word) drop(c Class) word {
	switch {
	case c == Interactive && w.used() > w.batch():
		return w - oneUsed
	case c != Interactive && w.batch() > 0:
		return w - oneUsed - oneBatch
	}
	panic("bulkhead: a slot was released that is not in use; each Try or Acquire that succeeded is released once, with its own class")
}

func (w word) limit(max int) word {
	return w&^(fieldMask<<maxShift) | word(max)<<maxShift
}

func (w word) wait(some bool) word {
	if some {
		return w | waitedFlag
	}
	return w &^ waitedFlag
}

// slots is a Config.Max as the word holds it.
func slots(limit int) int {
	switch {
	case limit == 0 || limit > Limit:
		return Limit
	case limit < 0:
		return 0
	}
	return limit
}

// limitOf is the way back.
func limitOf(slots int) int {
	switch slots {
	case Limit:
		return 0
	case 0:
		return -1
	}
	return slots
}

const million = 1_000_000

func millionths(share float64) int64 {
	switch {
	case share >= 1:
		return million
	case share > 0:
		return int64(share*million + 0.5)
	}
	return 0 // below zero, or no number
}

func waiting(n int) int {
	switch {
	case n == 0:
		return DefaultWaiting
	case n < 0:
		return 0
	}
	return n
}

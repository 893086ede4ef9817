package sqlite

// An intent's seq is its id's time: what a UUIDv7 begins with, without the digit of its version, which is 48 bits of
// milliseconds and the 12 bits that its maker counts with. So rows stand in the order of their ids, an id is found
// without an index over all history, and a new row is the last of its tree.
//
// Two makers may count alike. The later row then stands at the first free seq behind the other, probes places at most.
const (
	placeDigits = 15
	probes      = 64
)

// placeOf is where the row of id stands, or the first of the places where it may. It takes any text, so that a page
// can begin behind a prefix; what is no hexadecimal digit counts as the text's end.
func placeOf(id string) int64 {
	var seq int64
	taken := 0
	for i, digits := 0, 0; i < len(id) && taken < placeDigits; i++ {
		v := hexValue(id[i])
		if id[i] == '-' {
			continue
		}
		if v < 0 {
			break
		}
		if digits++; digits == 13 {
			continue // the version
		}
		seq = seq<<4 | v
		taken++
	}
	return max(seq<<(4*(placeDigits-taken)), 1) // 0 is no intent's
}

func hexValue(c byte) int64 {
	switch {
	case c >= '0' && c <= '9':
		return int64(c - '0')
	case c >= 'a' && c <= 'f':
		return int64(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int64(c-'A') + 10
	}
	return -1
}

// seqOf is the seq of the intent with the place ?1 and the id ?2, NULL when there is none. Its 64 is probes.
const seqOf = `(SELECT seq FROM intent WHERE seq >= ?1 AND seq < ?1 + 64 AND id = ?2 ORDER BY seq LIMIT 1)`

// byID are the first arguments of a query that uses seqOf.
func byID(id string, more ...any) []any { return append([]any{placeOf(id), id}, more...) }

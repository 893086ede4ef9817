package postgres

import "encoding/hex"

// uuid is an intent's id as it is stored.
type uuid [16]byte

// parseID reads an id in the form in which ids are written. What has another form names no intent.
func parseID(s string) (id uuid, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	at := 0
	for _, part := range [...]string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]} {
		n, err := hex.Decode(id[at:], []byte(part))
		if err != nil {
			return uuid{}, false
		}
		at += n
	}
	return id, true
}

func (id uuid) String() string {
	var b [36]byte
	hex.Encode(b[0:], id[:4])
	hex.Encode(b[9:], id[4:6])
	hex.Encode(b[14:], id[6:8])
	hex.Encode(b[19:], id[8:10])
	hex.Encode(b[24:], id[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

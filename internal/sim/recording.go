package sim

import (
	"fmt"
	"net/http"
	"strings"
)

// reply plays a recorded failure with its own headers.
func (f *failure) reply() (*reply, error) {
	body, err := f.bytes()
	if err != nil {
		return nil, fmt.Errorf("sim: signal %s: body: %w", f.ID, err)
	}
	h := http.Header{}
	for name, v := range f.Headers {
		h.Set(name, v)
	}
	rep := &reply{status: f.Status, header: h, pieces: [][]byte{body}, exact: true}
	rep.chunked = strings.EqualFold(h.Get("Transfer-Encoding"), "chunked")
	h.Del("Transfer-Encoding") // net/http says it
	return rep, nil
}

// reply plays a recorded stream byte for byte.
func (r *recorded) reply() (*reply, error) {
	pieces, err := r.pieces()
	if err != nil {
		return nil, err
	}
	rep := streamed(r.ContentType, 0, pieces...)
	rep.events = len(r.Splits) == 0
	return rep, nil
}

// expand turns a recorded failure without an answer into the cut that its caller would see.
func (c *corpus) expand(st Step) Step {
	f := c.signal(st.Signal)
	if f == nil || f.Status != 0 || f.Transport == nil || st.Cut != nil || st.Raw != "" {
		return st
	}
	at := AtRequest
	if st.succeeds() {
		at = AtEffect
	}
	switch err := strings.ToLower(f.Transport.Error); {
	case strings.HasPrefix(err, "417"):
		st.Status = http.StatusExpectationFailed
	case strings.Contains(err, "malformed"):
		st.Raw = plainRaw(f.Transport.Bytes)
	case f.Transport.Bytes > 0:
		st.Size = max(st.Size, f.Transport.Bytes*2)
		st.Cut = &Cut{At: AtByte, N: f.Transport.Bytes, How: Fin}
		if strings.Contains(err, "timeout") {
			st.Cut.How = Stall
		}
	case strings.Contains(err, "timeout"), strings.Contains(err, "deadline"), strings.Contains(err, "cancel"):
		st.Cut = &Cut{At: at, How: Stall}
	case strings.Contains(err, "eof"):
		st.Cut = &Cut{At: at, How: Fin}
	default:
		st.Cut = &Cut{At: at, How: Reset}
	}
	return st
}

func plainRaw(n int) string {
	return strings.Repeat("\x15\x03not http ", n/11+1)[:n]
}

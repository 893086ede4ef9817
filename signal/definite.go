package signal

// definiteStatuses are those after which an external call certainly had no effect (semantics 3). A 408, a 409
// and every other 5xx are not among them: a 500 after the effect is common enough.
var definiteStatuses = map[int]bool{
	400: true, 401: true, 403: true, 404: true, 405: true, 410: true, 411: true, 413: true, 414: true, 415: true,
	422: true, 428: true, 431: true, 501: true,
}

// Definite reports whether a call that acts in the world certainly did not act (semantics 3). It is stricter
// than Signal.OutcomeKnown, which says whether a model ran. A route's own words about its statuses
// (definite: [500]) are the caller's to add.
func Definite(a Answer) bool {
	switch {
	case a.Phase == MidStream:
		return false
	case a.Phase == NoResponse || a.Status == 0:
		return a.Transport != nil && a.Transport.notSent()
	case a.Status == 429 || a.Status == 503:
		h := readHeaders(a.Header)
		_, stated := headerWait(h, clock{now: a.ReceivedAt, date: h.get("date")})
		return stated
	}
	return definiteStatuses[a.Status]
}

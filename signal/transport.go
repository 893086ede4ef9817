package signal

import (
	"cmp"
	"strings"
)

// Sent says how much of the request left this machine.
type Sent string

const (
	SentNone    Sent = "none"
	SentPartial Sent = "partial"
	SentAll     Sent = "all"
)

// Transport is what is known when no usable response came.
type Transport struct {
	Error            string `json:"error"` // ECONNREFUSED, EOF, context canceled, …
	RequestBytesSent Sent   `json:"request_bytes_sent"`
	ResponseBytes    int64  `json:"response_bytes"`
}

// wordless is the type of a failure for which nobody had words: every failure has a type.
const wordless = "transport_error"

// transportRules read the error's words; the first match wins. What no row names goes by the bytes sent.
var transportRules = []struct {
	words string
	verdict
}{
	// RFC 9113 6.4, 6.8, 8.7: such streams were certainly not processed, whatever was sent. A bare GOAWAY says
	// nothing about a stream that is not above its last id.
	{"refused_stream", verdict{Connection, "", refused}},
	{"refused stream", verdict{Connection, "", refused}},
	{"graceful shutdown goaway", verdict{Connection, "", refused}}, // net/http: the stream was above the last id
	{"above last", verdict{Connection, "", refused}},
	{"above goaway", verdict{Connection, "", refused}},
	{"not processed", verdict{Connection, "", refused}},
	// No connection, so no request.
	{"econnrefused", verdict{Connection, "", refused}},
	{"connection refused", verdict{Connection, "", refused}},
	{"enotfound", verdict{Connection, "", refused}},
	{"eai_again", verdict{Connection, "", refused}},
	{"no such host", verdict{Connection, "", refused}},
	{"tls handshake timeout", verdict{Connection, "", refused}},
	// The caller left: nothing is repeated on its behalf.
	{"context canceled", verdict{Unknown, "", never}},
	{"context cancelled", verdict{Unknown, "", never}},
	{"client disconnected", verdict{Unknown, "", never}},
	// A certificate does not mend itself: configuration.
	{"certificate", verdict{Connection, "", never | review}},
	{"x509", verdict{Connection, "", never | review}},
	{"cert_", verdict{Connection, "", never | review}},
	{"self_signed", verdict{Connection, "", never | review}},
	{"unsupported protocol scheme", verdict{InvalidRequest, "", review}},
}

var timeoutWords = []string{"timeout", "timed out", "time-out", "deadline exceeded", "etimedout"}

func classifyTransport(t *Transport) Signal {
	if t == nil {
		t = &Transport{}
	}
	v := judgeTransport(t)
	words := bounded(t.Error)
	s := Signal{
		Class:             v.class,
		ProviderErrorType: cmp.Or(words, wordless),
		Retryable:         v.retryable(),
		OutcomeKnown:      t.notSent(),
		Message:           words,
	}
	if t.RequestBytesSent == SentPartial && v.class == Connection {
		s.OutcomeKnown = true // a server cannot act on a request that it has only in part
	}
	s.SuggestedLane = lane(v, &s, false)
	return s
}

func (t *Transport) nothingSent() bool {
	return t.RequestBytesSent == SentNone && t.ResponseBytes <= 0
}

// notSent: no request was sent, or the server says that it did not take it.
func (t *Transport) notSent() bool { return t.nothingSent() || judgeTransport(t).has(refused) }

func judgeTransport(t *Transport) verdict {
	e := strings.ToLower(t.Error)
	unsent := t.nothingSent()
	for _, r := range transportRules {
		if strings.Contains(e, r.words) {
			if v := r.verdict; v.class != Unknown || !unsent {
				return v
			}
			return verdict{Connection, "", r.flags}
		}
	}
	switch {
	case unsent:
		return verdict{class: Connection}
	case t.RequestBytesSent == SentPartial && t.ResponseBytes <= 0:
		return verdict{class: Connection}
	case containsAny(e, timeoutWords):
		return verdict{class: Timeout, flags: processed}
	}
	return verdict{class: Unknown, flags: processed}
}

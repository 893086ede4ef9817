package signal

import (
	"encoding/binary"
	"strings"
)

// readFrames reads Bedrock's event stream for an exception: frames of total length, headers' length and a
// CRC32, headers, payload, CRC32. The sums are the transport's business; here only the words count.
func (f *fault) readFrames(b []byte) {
	ended := false
	for len(b) >= 16 && !f.present {
		total, hlen := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
		if total < 16 || hlen > total-16 || total > int64(len(b)) {
			break
		}
		h := frameHeaders(b[12 : 12+hlen])
		payload := b[12+hlen : total-4]
		switch {
		case h[":message-type"] == "exception":
			f.typ = ""
			f.readFrame(h[":exception-type"], payload)
		case h[":message-type"] == "error":
			f.typ = ""
			f.say(h[":error-message"])
			f.fail(h[":error-code"])
		}
		event := h[":event-type"]
		ended = ended || event == "messageStop" || event == "metadata"
		f.toolStarted = f.toolStarted || event == "contentBlockStart" && hasValue(payload, `"toolUse"`)
		b = b[total:]
	}
	if f.inBand && !f.present && !ended {
		f.fail("stream_cut")
	}
}

func (f *fault) readFrame(exception string, payload []byte) {
	if v, err := decode(payload); err == nil {
		f.readValue(v, true, 0)
	} else {
		f.say(string(clipTo(payload, maxMatch)))
	}
	f.typ = "" // the header is the type
	f.fail(strings.TrimSpace(exception))
}

// stringHeader is the type of a text value; other types do not occur in these streams.
const stringHeader = 7

func frameHeaders(b []byte) map[string]string {
	out := map[string]string{}
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < n+4 || b[n+1] != stringHeader {
			return out
		}
		size := int(binary.BigEndian.Uint16(b[n+2:]))
		if len(b) < n+4+size {
			return out
		}
		out[string(b[1:n+1])] = string(b[n+4 : n+4+size])
		b = b[n+4+size:]
	}
	return out
}

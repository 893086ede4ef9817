package sim

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"github.com/tidwall/gjson"
)

// gemini answers the endpoints of Google's API.
func (s *Server) gemini(x *exchange, n int64) *reply {
	rep := s.geminiReply(x, n)
	x.q.commonHeaders(rep.header, s.cfg.Now())
	return rep
}

func (s *Server) geminiReply(x *exchange, n int64) *reply {
	switch q := x.q; q.endpoint {
	case "models":
		return q.models()
	case "countTokens":
		in := tokens(q.all)
		return plain(http.StatusOK, doc{"totalTokens", in,
			"promptTokensDetails", list{doc{"modality", "TEXT", "tokenCount", in}}}.bytes())
	case "embedContent":
		return plain(http.StatusOK, doc{"embedding", q.geminiVector(0)}.bytes())
	case "batchEmbedContents":
		all := make(list, min(q.inputs, 2048))
		for i := range all {
			all[i] = q.geminiVector(i)
		}
		return plain(http.StatusOK, doc{"embeddings", all}.bytes())
	}
	a := newAnswer(x.q, &x.st, n, s.cfg.Now())
	switch parts := a.contents(); {
	case !x.q.stream:
		return plain(http.StatusOK, a.whole().bytes())
	case x.q.array:
		return a.array(parts)
	default:
		pieces := make([][]byte, len(parts))
		for i, p := range parts {
			pieces[i] = append(appendJSON([]byte("data: "), p), "\r\n\r\n"...)
		}
		return streamed("text/event-stream", 0, pieces...)
	}
}

func (a *answer) finishReason() string { return orElse(a.finish, "STOP") }

// content is one GenerateContentResponse. The finish reason "" leaves the field out, as in all but the last.
func (a *answer) content(part doc, finish string, out int) doc {
	candidate := doc{"content", doc{"parts", list{part}, "role", "model"}}
	if finish != "" {
		candidate = append(candidate, "finishReason", finish)
	}
	return doc{"candidates", list{append(candidate, "index", 0)},
		"usageMetadata", doc{"promptTokenCount", a.in, "candidatesTokenCount", out, "totalTokenCount", a.in + out,
			"promptTokensDetails", list{doc{"modality", "TEXT", "tokenCount", a.in}}},
		"modelVersion", a.model, "responseId", a.ident("", 22)}
}

func (a *answer) functionCall() doc {
	return doc{"functionCall", doc{"name", a.call.name, "args", raw(a.call.args)}}
}

func (a *answer) whole() doc {
	if a.call != nil {
		return a.content(a.functionCall(), a.finishReason(), a.out)
	}
	return a.content(doc{"text", a.text}, a.finishReason(), a.out)
}

// contents are the elements of a stream. A function call is never cut into pieces.
func (a *answer) contents() []doc {
	if a.call != nil {
		return []doc{a.content(a.functionCall(), "", a.out), a.content(doc{"text", ""}, a.finishReason(), a.out)}
	}
	out := make([]doc, 0, len(a.chunks))
	for i, piece := range a.chunks {
		finish, n := "", tokens(len(a.text)*(i+1)/len(a.chunks))
		if i == len(a.chunks)-1 {
			finish, n = a.finishReason(), a.out
		}
		out = append(out, a.content(doc{"text", piece}, finish, n))
	}
	if len(out) == 0 {
		out = append(out, a.content(doc{"text", ""}, a.finishReason(), a.out))
	}
	return out
}

// arraySeparator comes before element n of a streamed array.
func arraySeparator(n int) string {
	if n == 0 {
		return "["
	}
	return ",\r\n"
}

// array is the stream without alt=sse: one JSON array, an element at a time.
func (a *answer) array(parts []doc) *reply {
	pieces := make([][]byte, 0, len(parts)+1)
	for i, p := range parts {
		pieces = append(pieces, appendJSON([]byte(arraySeparator(i)), p))
	}
	last := len(pieces) - 1
	pieces[last] = append(pieces[last], ']')
	return streamed("application/json", 0, pieces...)
}

func (q *request) geminiVector(i int) doc {
	dims := 8
	for _, name := range [...]string{"outputDimensionality", "requests.0.outputDimensionality"} {
		if n := int(gjson.GetBytes(q.body, name).Int()); n > 0 && n <= 4096 {
			dims = n
		}
	}
	return doc{"values", vector(i, dims)}
}

// vector is a unit vector that follows from its place.
func vector(i, dims int) []float32 {
	v := make([]float32, dims)
	norm := 0.0
	for k := range v {
		f := math.Sin(float64(i+1) * float64(k+1))
		v[k] = float32(f)
		norm += f * f
	}
	for k := range v {
		v[k] /= float32(math.Sqrt(norm))
	}
	return v
}

// vectorBase64 is little-endian float32, as OpenAI's encoding_format base64.
func vectorBase64(v []float32) string {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(b)
}

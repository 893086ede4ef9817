package provider

import (
	"bytes"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Form is a form in which an API gives one and the same answer. It is no part of a question: whoever has an answer in one form can
// be told it in another, see [Retell].
type Form string

// The forms.
const (
	FormDocument Form = "document"
	FormStream   Form = "stream"
	FormUsage    Form = "stream with usage" // of a chat: a chunk more, which none but who asked for it expects
	FormArray    Form = "array"
)

// Forms are those in which call may be answered, that which it asks for first. body is the request's.
func Forms(call *Call, body []byte) []Form {
	own := FormDocument
	switch {
	case call.Format == JSONArray:
		own = FormArray
	case call.Format == SSE && call.Endpoint == wire.Chat && wantsUsage(jsonview.Of(body)):
		own = FormUsage
	case call.Format == SSE:
		own = FormStream
	}
	all := []Form{own}
	for _, f := range [...]Form{FormDocument, FormStream, FormUsage, FormArray} {
		known := f != FormUsage && f != FormArray || f == FormUsage && call.Endpoint == wire.Chat || f == FormArray && call.Wire == Gemini
		if f != own && known {
			all = append(all, f)
		}
	}
	return all
}

func wantsUsage(doc jsonview.Value) bool { return doc.Path("stream_options", "include_usage").True() }

// cut is a part of a canonical form that something else takes the place of.
type cut struct {
	from, to int
	put      []byte
}

func apply(form []byte, cuts []cut) (out []byte) {
	slices.SortFunc(cuts, func(a, b cut) int { return a.from - b.from })
	at := 0
	for _, c := range cuts {
		out = append(append(out, form[at:c.from]...), c.put...)
		at = c.to
	}
	return append(out, form[at:]...)
}

// formless are the cuts that take out of a canonical form in which form the answer is to come.
func formless(call *Call, form []byte, doc jsonview.Value) (cuts []cut) {
	if call.Wire == Gemini {
		return geminiFormless(call, form)
	}
	for o := doc.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return cuts
		}
		if string(key) != "stream" && string(key) != "stream_options" {
			continue
		}
		// A canonical form has no white space, and no escape where none is needed.
		start, name := val.Offset(form), `"`+string(key)+`":`
		from, to := start-len(name), start+len(val)
		if !bytes.HasSuffix(form[:start], []byte(name)) {
			continue
		}
		if form[from-1] == ',' { // as behind "messages" and "input" it is
			from--
		}
		cuts = append(cuts, cut{from: from, to: to})
	}
}

// geminiFormless has both of Gemini's methods be one, and takes out how the answer of the second is framed.
func geminiFormless(call *Call, form []byte) (cuts []cut) {
	if call.Endpoint != wire.StreamGenerate {
		return nil
	}
	head := form[:bytes.Index(form, bodyMark)]
	if at := bytes.Index(head, []byte(":"+wire.StreamGenerate+`"`)); at >= 0 {
		cuts = append(cuts, cut{at + 1, at + 1 + len(wire.StreamGenerate), []byte(wire.Generate)})
	}
	const line = "\nquery \""
	at := bytes.Index(head, []byte(line))
	if at < 0 {
		return cuts
	}
	query, _, _ := bytes.Cut(head[at+len(line):], []byte(`"`))
	rest := slices.DeleteFunc(strings.Split(string(query), "&"), func(pair string) bool {
		return slices.Contains([]string{"alt=sse", "alt=json", "%24alt=sse", "%24alt=json"}, pair)
	})
	if len(rest) == 0 { // as where there is none
		return append(cuts, cut{at, at + len(line) + len(query) + 1, nil})
	}
	return append(cuts, cut{at + len(line), at + len(line) + len(query), []byte(strings.Join(rest, "&"))})
}

package gateway

import (
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

const (
	// assumedOutput is how many tokens an answer is taken to have whose request does not bound it.
	assumedOutput = 4096
	// bytesPerToken is a cautious mean: English has four, other scripts three bytes to a character.
	bytesPerToken = 3
	// mostBytesPerToken is what no text of a language that many write goes beyond by much.
	mostBytesPerToken = 5
	// mostTokens bounds what a request can say of itself.
	mostTokens = 1 << 30
	// mostAnswers bounds how many answers a request can ask for.
	mostAnswers = 1024
	// imageTokens is what an inlined file counts, however many bytes it has.
	imageTokens = 1600
	// leastImageTokens is what the smallest image counts (OpenAI's at low detail).
	leastImageTokens = 85
	// inlined is from how many characters on a file in base64 counts as one, rather than as text.
	inlined = 4096
)

// size is what a request will use, in tokens, by what can be told before it is sent.
type size struct {
	in, out int64 // rather too many: what money is reserved by
	least   int64 // of the request, rather too few
	bound   int64 // that the request sets on one answer; 0: none
	answers int64 // that it asks for
}

// Tokens is the estimate of what a request will use at a tier by which money is reserved, for whoever asks before sending: what it
// sends by its length, what comes by the bound that it or the tier's prompt sets, or by assumedOutput where neither does. It is no
// upper bound: what is beyond is reported (semantics 39).
func Tokens(endpoint string, body []byte, t *policy.Tier) (in, out int64) {
	z := sizeOf(endpoint, body).at(t)
	return z.in, z.out
}

// at is the size at a tier, whose prompt may bound each answer.
func (z size) at(t *policy.Tier) size {
	if t.Prompt != nil && t.Prompt.MaxTokens > 0 {
		most := int64(t.Prompt.MaxTokens)
		z.out, z.bound = min(z.out, most*z.answers), min(z.bound, most)
	}
	return z
}

func sizeOf(endpoint string, body []byte) (z size) {
	text, files := measured(body)
	z.in = (text+bytesPerToken-1)/bytesPerToken + files*imageTokens
	z.least = text/mostBytesPerToken + files*leastImageTokens
	switch endpoint {
	case wire.Embeddings, wire.Embed, wire.BatchEmbed:
		return z
	}
	z.bound, z.answers = bounds(body)
	if z.out = z.bound; z.bound < 0 {
		z.bound, z.out = 0, assumedOutput
	}
	z.out *= z.answers
	return z
}

// bounds reads what a request says of its answers: the most tokens that one may have, -1 where it says nothing, and how many there
// are. Of what is said several times, in whatever spelling, the most counts: which of them the provider takes is not ours to guess.
func bounds(body []byte) (most, answers int64) {
	most, answers = -1, 1
	read := func(key string, v jsonview.Value) {
		switch key {
		case "max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens":
			most = max(most, min(count(v), mostTokens))
		case "n", "candidateCount", "candidate_count":
			answers = max(answers, min(count(v), mostAnswers))
		}
	}
	members(body, func(key string, v jsonview.Value) {
		if key == "generationConfig" || key == "generation_config" {
			members(v, read)
			return
		}
		read(key, v)
	})
	return most, answers
}

// count reads a number, which Gemini takes in quotes as well; -1 for anything else.
func count(v jsonview.Value) int64 { return jsonview.Value(v.Scalar()).Int() }

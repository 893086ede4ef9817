package bench

import (
	"fmt"
	"strings"
)

// scenario is one kind of request, measured with every contender.
type scenario struct {
	name, title string
	request     *request
	numbers     numbers
	stream      bool
	conns       int // clients at full load; 0: Config.Connections
	// replays: the gateway must answer from its log. restarts: from the file, its memory emptied before every
	// slice.
	replays, restarts bool
	// rate is the target for requests/s, as a ratio to the reverse proxy; 0: none.
	rate float64
	// commits is how many commits an answer of the gateway waits for; -1: no target for its latency.
	commits int
}

// Names of what --only chooses.
const (
	Store, Generation, Strict, Streams, Read = "store", "generation", "strict", "streams", "read"
	ReplayMemory, ReplayFile, Bulk, Idle     = "replay-memory", "replay-file", "bulk", "idle"
)

// Names lists what can be measured, in the order in which it is.
func Names() []string {
	return []string{Store, Generation, Strict, Streams, Read, ReplayMemory, ReplayFile, Bulk, Idle}
}

// filler brings a request's body to about 1 KB, as a short conversation has.
var filler = strings.Repeat("The parcel was promised for Tuesday and has not come. ", 17)

func chatBody(nonce, more string) string {
	return fmt.Sprintf(`{"model":"gpt-5-mini","messages":[{"role":"system","content":"You answer briefly."},{"role":"user","content":"%s%s"}]%s}`,
		filler, nonce, more)
}

const (
	chatPath   = "/v1/chat/completions"
	credential = "Authorization: Bearer sk-bench"
)

// scenarios are the gateway's, in the order of Names.
func scenarios() []*scenario {
	keyed := newRequest("POST", chatPath, chatBody("", ""), credential, "Idempotency-Key: bench-"+unnumbered)
	count := newRequest("POST", "/v1/messages/count_tokens", chatBody(unnumbered, ""), "x-api-key: sk-bench", "anthropic-version: 2023-06-01")
	return []*scenario{
		{name: Generation, title: "generation, durable, every request new, 1.1 KB in, 0.65 KB out", rate: 0.95, commits: 1,
			request: newRequest("POST", chatPath, chatBody(unnumbered, ""), credential)},
		{name: Strict, title: "the same with durability: strict", commits: -1,
			request: newRequest("POST", chatPath, chatBody(unnumbered, ""), credential, "Holdfast-Workflow: strict")},
		{name: Streams, title: "streams of 32 chunks, durable, recorded", rate: 0.9, commits: 1, stream: true,
			request: newRequest("POST", chatPath, chatBody(unnumbered, `,"stream":true`), credential)},
		{name: Read, title: "read (count_tokens), no record", rate: 2, commits: -1, request: count},
		{name: ReplayMemory, title: "replay of one key from memory", rate: 3, commits: -1, replays: true, request: keyed,
			numbers: numbers{fix: true}},
		{name: ReplayFile, title: "replay from the file, gateway restarted, each key once", rate: 2.2, commits: -1, replays: true, restarts: true,
			request: keyed},
	}
}

// simArgs make the simulator answer at once: 0.65 KB plain, 32 chunks as a stream.
func simArgs() []string { return []string{"--bench", "--size", "300", "--chunks", "32"} }

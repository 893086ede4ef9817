package audit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Ended is an end of the server that nobody asked for. The audit starts it again, and goes on.
type Ended struct {
	At    time.Time `json:"at"`
	Tool  string    `json:"tool,omitempty"` // under test then; empty: none yet
	Probe string    `json:"probe"`
	Says  string    `json:"says"` // how the connection ended
}

func (e Ended) String() string {
	if e.Tool == "" {
		return fmt.Sprintf("%s: %s", e.Probe, e.Says)
	}
	return fmt.Sprintf("%s, %s: %s", e.Tool, e.Probe, e.Says)
}

// maxEnded bounds what is kept of a server that ends all the time.
const maxEnded = 100

// journal is how often a server has ended by itself, and during what. It is safe for concurrent use.
type journal struct {
	mu          sync.Mutex
	tool, probe string // at hand
	n           int
	ended       []Ended
}

// begin says what is done from now on.
func (j *journal) begin(tool, probe string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tool, j.probe = tool, probe
}

func (j *journal) end(why error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	if len(j.ended) < maxEnded {
		j.ended = append(j.ended, Ended{At: time.Now().UTC(), Tool: j.tool, Probe: j.probe, Says: cut(fmt.Sprint(why), 160)})
	}
}

// count is how often the server has ended so far.
func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.n
}

func (j *journal) list() []Ended {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.ended)
}

// probesOf are the probes of a tool during which the server ended, each once.
func (j *journal) probesOf(tool string) []string {
	var out []string
	for _, e := range j.list() {
		if e.Tool == tool && !slices.Contains(out, e.Probe) {
			out = append(out, e.Probe)
		}
	}
	return out
}

// endNote says of a tool that the server ended under its probes.
func (j *journal) endNote(tool string) string {
	probes := j.probesOf(tool)
	if len(probes) == 0 {
		return ""
	}
	return "the server ended by itself and was started again during: " + strings.Join(probes, "; ")
}

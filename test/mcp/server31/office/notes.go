package office

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reading is the time between reading a note and writing it back.
const reading = 30 * time.Millisecond

const noteURI = "note://"

// notes are read as resources and by no tool.
type notes struct {
	mu   sync.Mutex
	text map[string]string
}

func newNotes() *notes {
	return &notes{text: map[string]string{"shopping": "coffee\n", "standup": "Bo is away on Friday.\n"}}
}

func (*notes) name() string { return "notes" }

func (n *notes) snapshot() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return frozen(n.text)
}

type noteAppend struct {
	Note string `json:"note" jsonschema:"Which note; the resource note://NAME shows it" enum:"shopping|standup"`
	Line string `json:"line" jsonschema:"The line to add at the end" len:"500" example:"oat milk"`
}

func (n *notes) register(m *mcp.Server) {
	addTool(m, describe[noteAppend]("note_append", "Append to note", "Add a line at the end of a note.", puts), n.append)
	for _, name := range []string{"shopping", "standup"} {
		m.AddResource(&mcp.Resource{URI: noteURI + name, Name: name, Title: "Note: " + name, MIMEType: "text/plain"}, n.read)
	}
}

// append is at fault twice: a repeat adds the line again, and of two at once, one is lost, since both write back what
// both had read.
func (n *notes) append(_ context.Context, in noteAppend) (noteAppend, error) {
	n.mu.Lock()
	before := n.text[in.Note]
	n.mu.Unlock()

	time.Sleep(reading)

	n.mu.Lock()
	defer n.mu.Unlock()
	n.text[in.Note] = before + in.Line + "\n"
	return in, nil
}

func (n *notes) read(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, ok := n.text[strings.TrimPrefix(r.Params.URI, noteURI)]
	if !ok {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	return document(r.Params.URI, "text/plain", text), nil
}

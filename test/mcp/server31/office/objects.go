package office

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// replication is how long readers still see what was there before.
const replication = 400 * time.Millisecond

// objects is a store whose readers are behind its writers.
type objects struct {
	mu      sync.Mutex
	now     func() time.Time
	seen    map[string]object
	pending []replicated
}

type object struct {
	Text string `json:"text"`
	Tag  string `json:"etag"`
}

type replicated struct {
	key   string
	value object
	at    time.Time
}

func newObjects(now func() time.Time) *objects {
	return &objects{now: now, seen: map[string]object{"logo.svg": sealed("<svg/>")}}
}

func sealed(text string) object {
	sum := sha256.Sum256([]byte(text))
	return object{text, hex.EncodeToString(sum[:8])}
}

func (*objects) name() string { return "objects" }

func (o *objects) snapshot() any {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	return frozen(o.seen)
}

// settle shows readers what was written long enough ago. The caller holds the lock.
func (o *objects) settle() {
	for len(o.pending) > 0 && !o.pending[0].at.After(o.now()) {
		o.seen[o.pending[0].key] = o.pending[0].value
		o.pending = o.pending[1:]
	}
}

type objectPut struct {
	Key  string `json:"key" jsonschema:"Name of the object" pattern:"^[a-z0-9._-]+$" len:"100" example:"banner.txt"`
	Text string `json:"text" jsonschema:"The whole content" len:"20000" example:"Summer sale"`
}

type objectStored struct {
	Key string `json:"key"`
	Tag string `json:"etag" jsonschema:"Hash of the content"`
}

type objectList struct {
	Objects map[string]object `json:"objects" jsonschema:"By key"`
}

func (o *objects) register(m *mcp.Server) {
	addTool(m, describe[objectPut]("object_put", "Put object", "Store an object under a key, replacing the one that was there.", puts), o.put)
	addTool(m, describe[none]("object_list", "List objects", "All objects by key. Follows writes within a second.", reads), o.list)
}

func (o *objects) put(_ context.Context, in objectPut) (objectStored, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	value := sealed(in.Text)
	o.pending = append(o.pending, replicated{in.Key, value, o.now().Add(replication)})
	return objectStored{in.Key, value.Tag}, nil
}

func (o *objects) list(context.Context, none) (objectList, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	return objectList{maps.Clone(o.seen)}, nil
}

package provider

import (
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
)

// MarkName is the member of a chat completion's metadata by which a stored one is found again.
const MarkName = "holdfast"

// maxMetadata is how many members OpenAI takes.
const maxMetadata = 16

// Mark writes value into the metadata of a chat completion's request. ok is false, and body what it was, where the completion is not
// asked to be stored, or its metadata has no room: OpenAI takes metadata of what it stores only.
func Mark(body []byte, value string) (marked []byte, ok bool) {
	if twice(body, "store", "metadata") { // the mark would go into one, and the provider may take the other
		return body, false
	}
	at := gjson.GetManyBytes(body, "store", "metadata", "metadata."+MarkName)
	store, metadata, taken := at[0], at[1], at[2]
	switch {
	case store.Type != gjson.True, taken.Exists():
		return body, false
	case metadata.Exists() && metadata.Type != gjson.Null && !metadata.IsObject(), len(metadata.Map()) >= maxMetadata:
		return body, false
	}
	path, set := "metadata."+MarkName, any(value)
	if !metadata.IsObject() {
		path, set = "metadata", map[string]string{MarkName: value}
	}
	marked, err := sjson.SetBytes(body, path, set)
	if err != nil {
		return body, false
	}
	return marked, true
}

// twice reports whether an object has one of several members more than once.
func twice(doc jsonview.Value, names ...string) bool {
	seen := make([]bool, len(names))
	for o := doc.Object(); ; {
		key, _, ok := o.Next()
		if !ok {
			return false
		}
		for i, name := range names {
			if string(key) != name {
				continue
			}
			if seen[i] {
				return true
			}
			seen[i] = true
		}
	}
}

package translate

import "slices"

// blocksOf are the blocks that a message may hold, by who says it.
var blocksOf = map[role][]kind{fromUser: {text, image, document, result}, fromModel: {text, call}, fromSystem: {text}}

func (j *job) anthropicMessages(all []value, c *conversation) {
	for i, v := range all {
		if j.err != nil {
			return
		}
		m := j.object(v, index("messages", i))
		roles := map[string]role{"user": fromUser, "assistant": fromModel, "system": fromSystem}
		kind := m.need("role")
		r, ok := roles[kind]
		if !ok {
			j.fail(m.path("role"), other(kind, nil))
			return
		}
		parts := j.anthropicContent(m)
		m.end(nil)
		if len(parts) == 0 {
			j.fail(m.at, "an empty message has no turn of its own")
		}
		j.anthropicTurn(c, r, m.at, parts)
	}
}

// anthropicTurn adds a message. The results of tools stand in the user's message here, before what the user says, and apart
// from it everywhere else. Successive messages of the model are one turn (https://platform.claude.com/docs/en/api/messages).
func (j *job) anthropicTurn(c *conversation, r role, at string, parts []part) {
	results := 0
	for i, p := range parts {
		if !slices.Contains(blocksOf[r], p.kind) {
			j.wrong(p.at, "a block that a message of this role may have")
			return
		}
		if p.kind != result {
			continue
		}
		if i != results {
			j.fail(p.at, "results of tools come first in the user's message")
			return
		}
		results++
	}
	if n := len(c.turns); r == fromModel && n > 0 && c.turns[n-1].role == fromModel {
		c.turns[n-1].parts = append(c.turns[n-1].parts, parts...)
		return
	}
	if results > 0 {
		j.anthropicResults(c, turn{role: fromTools, at: at, parts: parts[:results]})
	}
	if results < len(parts) {
		c.turns = append(c.turns, turn{role: r, at: at, parts: parts[results:]})
	}
}

// anthropicResults joins results that stand in successive messages of the user: they are one turn.
func (j *job) anthropicResults(c *conversation, t turn) {
	if n := len(c.turns); n > 0 && c.turns[n-1].role == fromTools {
		c.turns[n-1].parts = append(c.turns[n-1].parts, t.parts...)
		return
	}
	c.turns = append(c.turns, t)
}

func (j *job) anthropicContent(m fields) []part {
	v, at := m.take("content"), m.path("content")
	if v.is('"') {
		return textPart(v, at)
	}
	if !v.is('[') {
		j.wrong(at, "a string or an array of blocks")
	}
	var out []part
	i := 0
	for item := range v.items() {
		out = append(out, j.anthropicBlock(j.object(item, index(at, i)))...)
		i++
	}
	return out
}

var anthropicBlockRules = map[string]string{
	"citations":       "citations belong to one provider",
	"caller":          "hosted tools run at one provider only",
	"toolset_name":    "hosted tools run at one provider only",
	"context":         "other providers take no context beside a document",
	"transformations": "other providers do not transform images",
}

const signed = "thinking is signed by its provider and means nothing to another"

// anthropicKinds are the reasons why blocks have no counterpart.
var anthropicKinds = map[string]string{
	"thinking":          signed,
	"redacted_thinking": signed,
	"search_result":     "citations belong to one provider",
	"container_upload":  "a file kept by a provider is at no other",
	"server_tool_use":   "hosted tools run at one provider only",
	"tool_reference":    "hosted tools run at one provider only",
}

func (j *job) anthropicBlock(f fields) []part {
	defer f.end(anthropicBlockRules)
	f.drop("cache_control")
	f.usual("citations", "[]", `{"enabled":false}`)
	switch kind := f.need("type"); kind {
	case "text":
		return textPart(f.want("text"), f.at)
	case "image":
		return []part{j.anthropicSource(f, image)}
	case "document":
		return []part{j.anthropicSource(f, document)}
	case "tool_use":
		return []part{j.anthropicCall(f)}
	case "tool_result":
		return []part{j.anthropicResult(f)}
	default:
		j.fail(f.path("type"), other(kind, anthropicKinds))
		f.forget()
		return nil
	}
}

func (j *job) anthropicCall(f fields) part {
	p := part{kind: call, at: f.at, id: f.need("id"), name: f.need("name"), args: f.take("input")}
	f.usual("caller", `{"type":"direct"}`)
	if !p.args.is('{') {
		j.wrong(f.path("input"), "an object")
	}
	return p
}

func (j *job) anthropicSource(f fields, k kind) part {
	p := part{kind: k, at: f.at}
	if k == document {
		p.title = f.raw("title")
	}
	s := j.object(f.take("source"), f.path("source"))
	defer s.end(nil)
	switch kind := s.need("type"); kind {
	case "base64":
		p.mime, p.data = s.need("media_type"), s.need("data")
		if !isBase64(p.data) {
			j.wrong(s.path("data"), "base64")
		}
	case "url":
		if p.url = s.want("url"); !isWeb(p.url) {
			j.wrong(s.path("url"), "an http URL")
		}
	default:
		j.fail(s.path("type"), other(kind, map[string]string{"file": "a file kept by a provider is at no other",
			"text": "only documents in base64 are translated", "content": "only documents in base64 are translated"}))
		s.forget()
	}
	return p
}

func (j *job) anthropicResult(f fields) part {
	p := part{kind: result, at: f.at, id: f.need("tool_use_id"), failed: f.flag("is_error"), texts: []value{}}
	v, at := f.take("content"), f.path("content")
	switch {
	case v.is('"'):
		p.texts = append(p.texts, v)
	case v != nil && !v.is('['):
		j.wrong(at, "a string or an array of blocks")
	}
	i := 0
	for item := range v.items() {
		b := j.object(item, index(at, i))
		i++
		b.drop("cache_control")
		b.usual("citations", "[]", `{"enabled":false}`)
		if kind := b.need("type"); kind != "text" {
			j.fail(b.path("type"), "a tool's result is text for other providers")
			return p
		}
		p.texts = append(p.texts, b.want("text"))
		b.end(anthropicBlockRules)
	}
	return p
}

package translate

import "github.com/holdfast-ai/holdfast/internal/mutant"

// conversation is a request as every side means it. Texts are JSON strings as the client wrote them.
type conversation struct {
	system []value
	turns  []turn
	tools  []tool
	choice choice
	format *format

	maxTokens, temperature, topP, topK, seed, frequency, presence setting
	effort, budget                                                setting // a level; a number of tokens to think with
	stop                                                          []value
	stopAt                                                        string
	user                                                          setting

	stream bool
	usage  bool // of the stream
}

type role int

const (
	fromUser role = iota
	fromModel
	fromSystem // an instruction amid the conversation
	fromTools  // the results of the calls of the turn before
)

type turn struct {
	role  role
	at    string
	parts []part
}

type kind int

const (
	text kind = iota
	image
	document
	call
	result
)

// part is a piece of a turn. Which fields count depends on its kind.
type part struct {
	kind kind
	at   string

	text value // text

	mime, data string // image, document: base64
	url        value  // image: instead of both
	title      value  // document: its name, or nil

	id, name string // call, result
	args     value  // call: a JSON object

	texts  []value // result
	failed bool    // result: what it says is an error
}

type tool struct {
	at          string
	name        string
	description value
	schema      value // nil: no parameters
	strict      bool
}

// choice says which tools may be called.
type choice struct {
	at     string
	mode   mode
	name   string // of the tool, for one
	serial string // the field that forbids several calls at once, or ""
}

type mode int

const (
	auto mode = iota
	none
	anyTool
	one
)

// format is the JSON that the answer's text must be.
type format struct {
	at          string
	schema      value // nil: any object
	description value
	strict      bool
}

// check holds what is true of every conversation that can be handed on, whatever its words.
func (j *job) check(c *conversation) {
	if len(c.turns) == 0 {
		j.wrong("messages", "an array with a message")
		return
	}
	var open []part // the calls that have no result yet
	for i := range c.turns {
		t := &c.turns[i]
		if len(t.parts) == 0 {
			j.fail(t.at, "an empty message is refused by other providers")
		}
		switch t.role {
		case fromTools:
			j.answer(t, open)
			open = nil
		default:
			if len(open) > 0 {
				j.fail(t.at, unanswered)
			}
			open = calls(t)
		}
	}
	if last := c.turns[len(c.turns)-1]; last.role != fromUser && last.role != fromTools {
		j.fail(last.at, "a conversation that ends with this message is continued by one provider and answered by another")
	}
	j.checkTools(c)
}

const unanswered = "a tool call of the message before has no result, which every other provider refuses"

func calls(t *turn) (open []part) {
	for _, p := range t.parts {
		if p.kind == call {
			open = append(open, p)
		}
	}
	return open
}

// answer gives the results the names and the order of their calls: Gemini goes by both.
func (j *job) answer(t *turn, open []part) {
	place := make(map[string]int, len(open))
	for i, p := range open {
		if _, twice := place[p.id]; twice {
			j.wrong(p.at+".id", "the id of one call alone")
		}
		place[p.id] = i
	}
	results := make([]part, len(open))
	for _, p := range t.parts {
		i, ok := place[p.id]
		if !ok || results[i].id != "" {
			j.fail(p.at, "it answers no call of the message before")
			return
		}
		p.name = open[i].name
		results[i] = p
	}
	if len(t.parts) < len(open) {
		j.fail(t.at, unanswered)
	}
	if mutant.On("results-by-place") {
		return
	}
	t.parts = results
}

func (j *job) checkTools(c *conversation) {
	names := make(map[string]bool, len(c.tools))
	for _, t := range c.tools {
		if names[t.name] {
			j.wrong(t.at, "the only tool of its name")
		}
		names[t.name] = true
		if t.schema != nil && !t.schema.is('{') {
			j.wrong(t.at, "a tool with a JSON schema")
		}
	}
	if len(c.tools) == 0 && c.choice.mode > none {
		j.wrong(c.choice.at, "possible without tools")
	}
	if c.choice.mode == one && !names[c.choice.name] {
		j.wrong(c.choice.at, "the name of one of the tools")
	}
}

// hasCalls reports whether the history holds calls of tools.
func (c *conversation) hasCalls() (at string, ok bool) {
	for _, t := range c.turns {
		for _, p := range t.parts {
			if p.kind == call {
				return p.at, true
			}
		}
	}
	return "", false
}

// forced reports whether the model must call a tool.
func (c *conversation) forced() bool { return c.choice.mode == anyTool || c.choice.mode == one }

// strict is the path of a tool whose arguments must match their schema, or "".
func (c *conversation) strict() string {
	for _, t := range c.tools {
		if t.strict {
			return t.at
		}
	}
	return ""
}

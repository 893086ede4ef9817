package canon_test

import (
	"testing"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

// chat is a rule of the kind that idempotency makes.
func chat() *canon.Rule {
	root := &canon.Rule{}
	root.Get("drop").Drop = true
	root.Get("meta").Others = true
	root.Get("meta").Get("user")
	root.Get("system").Text = true
	message := &canon.Rule{Roles: []string{"user", ""}}
	message.Get("content").Text = true
	message.Get("content").Each = &canon.Rule{}
	message.Get("content").Each.Get("hint").Drop = true
	root.Get("messages").Each = message
	return root
}

func TestRules(t *testing.T) {
	for _, tc := range []struct{ name, src, want string }{
		{"drop", `{"drop":{"x":1},"a":1}`, `{"a":1}`},
		{"drop the only member", `{"drop":1}`, `{}`},
		{"drop the last member", `{"a":1,"drop":1}`, `{"a":1}`},
		{"drop by the name meant, not written", `{"\u0064rop":1,"a":1}`, `{"a":1}`},
		{"drop only at its place", `{"x":{"drop":1}}`, `{"x":{"drop":1}}`},
		{"others", `{"meta":{"trace":1,"user":"u"}}`, `{"meta":{"user":"u"}}`},
		{"others, nothing left", `{"a":1,"meta":{"trace":1}}`, `{"a":1}`},
		{"others, no object", `{"a":1,"meta":null}`, `{"a":1}`},
		{"text", `{"system":" \n\t\r a  b \u0020\\n \n"}`, `{"system":"a  b  \\n"}`},
		{"text of white space", `{"system":" \n "}`, `{"system":""}`},
		{"text that is none", `{"system":7}`, `{"system":7}`},
		{"text ends in an escaped backslash and a letter", `{"system":"a\\\\n"}`, `{"system":"a\\\\n"}`},
		{"other spaces are text", "{\"system\":\"\u00a0a\u3000\"}", "{\"system\":\"\u00a0a\u3000\"}"},
		{"role before", `{"messages":[{"role":"user","content":" a "}]}`, `{"messages":[{"content":"a","role":"user"}]}`},
		{"role after", `{"messages":[{"content":" a ","role":"user"}]}`, `{"messages":[{"content":"a","role":"user"}]}`},
		{"no role", `{"messages":[{"content":" a "}]}`, `{"messages":[{"content":"a"}]}`},
		{"role that is no string", `{"messages":[{"content":" a ","role":null}]}`, `{"messages":[{"content":" a ","role":null}]}`},
		{"prefill", `{"messages":[{"content":" a ","role":"assistant"}]}`, `{"messages":[{"content":" a ","role":"assistant"}]}`},
		{"one part", `{"messages":[{"content":[{"text":" a "}]}]}`, `{"messages":[{"content":[{"text":"a"}]}]}`},
		{"parts: only the ends", `{"messages":[{"content":[{"z":[1,{}],"text":" a "},{"text":" b "},{"text":" c ","a":"}]"}]}]}`,
			`{"messages":[{"content":[{"text":"a ","z":[1,{}]},{"text":" b "},{"a":"}]","text":" c"}]}]}`},
		{"parts: an image at the end", `{"messages":[{"content":[{"text":" a "},{"image":1}]}]}`, `{"messages":[{"content":[{"text":"a "},{"image":1}]}]}`},
		{"parts of other kinds", `{"messages":[{"content":[1,{},{"text":1},[" a "]," b "]}]}`, `{"messages":[{"content":[1,{},{"text":1},[" a "]," b "]}]}`},
		{"no parts", `{"messages":[{"content":[]},{"content":{}},{"content":null}]}`, `{"messages":[{"content":[]},{"content":{}},{"content":null}]}`},
		{"drop inside a text", `{"messages":[{"content":[{"hint":1,"text":" a "}]}]}`, `{"messages":[{"content":[{"text":"a"}]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e canon.Encoder
			got, err := e.Append(nil, []byte(tc.src), chat())
			if err != nil || string(got) != tc.want {
				t.Fatalf("got  %s, %v\nwant %s", got, err, tc.want)
			}
			again, err := e.Append(nil, got, chat())
			if err != nil || string(again) != string(got) {
				t.Errorf("again: %s, %v", again, err)
			}
		})
	}
}

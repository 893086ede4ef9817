package sim

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzCall: no request makes the simulator panic, and whatever it answers is framed as it says.
func FuzzCall(f *testing.F) {
	f.Add("POST", chatPath, chatBody("hello op=a", true))
	f.Add("POST", chatPath, chatBody(`sim:{"steps":["cut:3","reply_lost"],"then":"503"}`, true))
	f.Add("POST", "/v1/responses", `{"model":"m","stream":true,"input":[{"role":"user","content":[{"text":"x"}]}],`+respTools+`,"tool_choice":"required"}`)
	f.Add("POST", "/v1/messages", `{"model":"m","stream":true,`+anthHello+`,`+anthTools+`,"tool_choice":{"type":"any"}}`)
	f.Add("POST", "/v1beta/models/a:b:streamGenerateContent", `{`+gemHello+`}`)
	f.Add("POST", "/v1/embeddings", `{"model":"m","input":[[1,2],[3]],"dimensions":-1}`)
	f.Add("GET", "/charges/x?ref=1&ref=2", ``)
	f.Add("POST", chatPath, `{"model":"m","n":1e99,"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","minItems":1e9,"items":{"anyOf":[{"anyOf":[]}]}}}}}`)
	s := New(Config{})
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, method, path, body string) {
		switch method {
		case "GET", "POST", "PUT", "DELETE", "HEAD":
		default:
			method = "POST"
		}
		target := "/" + strings.TrimLeft(path, "/")
		if strings.HasPrefix(target, ControlPrefix) || strings.ContainsAny(target, " \r\n\t#%\x7f") || strings.Contains(body, "_ms") ||
			strings.Contains(body, "hold") || strings.Contains(body, "stall") || strings.Contains(body, "hang") {
			t.Skip() // those wait
		}
		for _, c := range target {
			if c < ' ' {
				t.Skip()
			}
		}
		s.Reset()
		w, aborted := serveRecorded(s, httptest.NewRequest(method, target, strings.NewReader(body)))
		if !aborted && w.Header().Get("Content-Type") == "application/json" && w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) &&
			!strings.Contains(body, "sim") && !strings.Contains(target, "sim") {
			t.Errorf("not JSON: %s", w.Body)
		}
	})
}

// FuzzScript: a script from outside is refused or can be played.
func FuzzScript(f *testing.F) {
	f.Add(`{"rules":[{"match":{"path":"/v1/**"},"steps":["503",{"fault":"cut:2","headers":{"A":"b"}}],"then":"ok","times":-1}]}`)
	f.Add(`{"default":{"status":503,"body":"x","trickle_bytes":1,"repeat_event":9,"error_event":-1,"cut":{"at":"byte","n":-5,"how":"fin"}}}`)
	f.Add(`{"rules":[{"steps":[{"stream":"anthropic-text","cut":{"at":"event","n":-1,"how":"torn"}}]}]}`)
	s := New(Config{})
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "_ms") || strings.Contains(text, "hold") || strings.Contains(text, "stall") || strings.Contains(text, "hang") {
			t.Skip()
		}
		var script Script
		if strict([]byte(text), &script) != nil {
			return
		}
		if s.SetScript(script) != nil {
			return
		}
		serveRecorded(s, httptest.NewRequest("POST", chatPath, strings.NewReader(chatBody("x", true))))
	})
}

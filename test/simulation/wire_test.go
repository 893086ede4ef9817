package simulation

import (
	"fmt"
	"strings"
)

// answerOf is the answer of one execution, by pieces: the first is the lead-in, each of the contents names the
// execution and its own number.
func answerOf(path string, op, n int, stream bool, pieces int) [][]byte {
	texts := make([]string, pieces)
	for i := range texts {
		texts[i] = fmt.Sprintf("[%d:%d]", n, i)
	}
	var out []string
	switch anthropic, gemini := strings.HasSuffix(path, "/messages"), strings.Contains(path, "/models/"); {
	case anthropic && stream:
		out = anthropicStream(op, n, texts)
	case gemini && stream:
		out = geminiStream(op, n, texts)
	case stream:
		out = openaiStream(op, n, texts)
	case anthropic:
		out = []string{fmt.Sprintf(anthropicBody, n, op, strings.Join(texts, ""))}
	case gemini:
		out = []string{fmt.Sprintf(geminiBody, strings.Join(texts, ""), op, n)}
	default:
		out = []string{fmt.Sprintf(openaiBody, n, op, strings.Join(texts, ""))}
	}
	parts := make([][]byte, len(out))
	for i, s := range out {
		parts[i] = []byte(s)
	}
	return parts
}

const (
	anthropicBody = `{"id":"<%d>","type":"message","role":"assistant","model":"m%d","content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	geminiBody    = `{"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m%d","responseId":"<%d>"}`
	openaiBody    = `{"id":"<%d>","object":"chat.completion","created":1,"model":"m%d","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
)

func anthropicStream(op, n int, texts []string) []string {
	event := func(kind, fields string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":\"%s\"%s}\n\n", kind, kind, fields)
	}
	out := []string{event("message_start", fmt.Sprintf(`,"message":{"id":"<%d>","type":"message","role":"assistant","model":"m%d","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}`, n, op)) +
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)}
	for _, s := range texts {
		out = append(out, event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"`+s+`"}`))
	}
	return append(out, event("content_block_stop", `,"index":0`),
		event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}`), event("message_stop", ""))
}

func geminiStream(op, n int, texts []string) (out []string) {
	for i, s := range texts {
		finish := ""
		if i == len(texts)-1 {
			finish = `,"finishReason":"STOP"`
		}
		out = append(out, fmt.Sprintf("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"%s\"}],\"role\":\"model\"}%s,\"index\":0}],\"modelVersion\":\"m%d\",\"responseId\":\"<%d>\"}\r\n\r\n", s, finish, op, n))
	}
	return out
}

func openaiStream(op, n int, texts []string) []string {
	chunk := func(delta, finish string) string {
		return fmt.Sprintf("data: {\"id\":\"<%d>\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m%d\",\"choices\":[{\"index\":0,\"delta\":{%s},\"finish_reason\":%s}]}\n\n", n, op, delta, finish)
	}
	out := []string{chunk(`"role":"assistant","content":""`, "null")}
	for _, s := range texts {
		out = append(out, chunk(`"content":"`+s+`"`, "null"))
	}
	return append(out, chunk("", `"stop"`), "data: [DONE]\n\n")
}

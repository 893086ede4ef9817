package translate_test

import (
	"errors"
	"fmt"

	"github.com/holdfast-ai/holdfast/translate"
)

// A client of OpenAI is answered by Claude, and never notices.
func Example() {
	request := []byte(`{"model":"gpt-4.1","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"}]}`)
	call, err := translate.Request(translate.OpenAIChat, translate.AnthropicMessages, request, translate.Options{Model: "claude-sonnet-4-6"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(call.Path, string(call.Body))

	answer := []byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`) // with status 529
	fault := call.Fault(529, answer)
	fmt.Println(fault.Status, string(call.ErrorBody(fault)))
	// Output:
	// /v1/messages {"model":"claude-sonnet-4-6","max_tokens":16384,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":[{"type":"text","text":"2+2?"}]}]}
	// 503 {"error":{"message":"Overloaded","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}
}

// What the far side cannot be told says where and why.
func ExampleMismatch() {
	request := []byte(`{"model":"gpt-4.1","messages":[{"role":"user","content":"Hi"}],"n":3}`)
	_, err := translate.Request(translate.OpenAIChat, translate.GeminiGenerate, request, translate.Options{Model: "gemini-3.5-flash"})
	var mismatch *translate.Mismatch
	if errors.As(err, &mismatch) {
		fmt.Println(mismatch.Field, "–", mismatch.Rule)
	}
	// Output: n – other providers give one answer
}

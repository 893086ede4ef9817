// Command quickstart asks OpenAI the same thing twice with the official client. What makes it go through Holdfast is
// the base URL alone: OPENAI_BASE_URL=http://127.0.0.1:8787/v1.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	client := openai.NewClient() // OPENAI_API_KEY, OPENAI_BASE_URL
	for range 2 {
		var raw *http.Response
		answer, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model:    "gpt-5",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Thank the customer for order 4712.")},
		}, option.WithHeader("Idempotency-Key", "order-4712"), option.WithResponseInto(&raw))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%s  replayed: %q\n", answer.Choices[0].Message.Content, raw.Header.Get("Idempotency-Replayed"))
	}
}

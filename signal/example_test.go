package signal_test

import (
	"fmt"

	"github.com/holdfast-ai/holdfast/signal"
)

func ExampleClassify() {
	s := signal.Classify(signal.Answer{
		Provider: "anthropic",
		Endpoint: "POST /v1/messages",
		Status:   400,
		Body:     []byte(`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}`),
		Phase:    signal.BeforeFirstToken,
	})
	fmt.Println(s.Class, s.LimitDimension, s.Retryable, s.SuggestedLane)
	// Output: quota_exhausted spend false owner_review
}

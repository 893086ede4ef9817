package gateway

import (
	"slices"
	"time"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/signal"
)

// declines reports whether a tier that answers by a refusal of its provider's policy on content is followed by another one: where
// fallback.on lists content_filter, and one keeps the contract. The last one's refusal is the answer.
// what says whether the answer is a refusal.
func (e *execution) declines(what func() bool) bool {
	if !e.course.several() || !slices.Contains(e.wf.Fallback.On, string(signal.ContentFilter)) || !what() {
		return false
	}
	d := e.would(Failing{Failure: string(signal.ContentFilter)})
	return d.Action == fallback.Next && !d.Approval
}

// declined is an answer that is a refusal. It is billed like any other: what it says of its tokens is paid.
func (e *execution) declined(resp *upstream.Response, body []byte, usage provider.Usage, stream bool) *outcome {
	const reason = "the provider declined to answer by its policy on content"
	return &outcome{verdict: verdict{end: ledger.AttemptFailed, status: resp.Status, kind: string(signal.ContentFilter), reason: reason, rule: "fallback.on",
		signal: signal.Signal{Class: signal.ContentFilter, ProviderErrorType: string(signal.ContentFilter), OutcomeKnown: true}, billed: &usage},
		document: slices.Clone(body), at: time.Now(), how: ending{reveal: &head{status: resp.Status, header: resp.Header, stream: stream}}}
}

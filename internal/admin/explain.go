package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/holdfast-ai/holdfast/internal/explain"
)

// maxQuestion bounds a question: a body of the largest size that is read, in base64, with its frame.
const maxQuestion = 4 << 20

// explain answers what the running policy makes of an answer. Nothing is sent and nothing is kept.
func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large", "a question is at most 4 MiB; cut the body, of which 1 MiB is read")
		return
	case err != nil:
		return // a client that left
	}
	var q explain.Question
	if err := json.Unmarshal(text, &q); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	out, err := explain.Explain(a.Policy(), q)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	answer(w, out)
}

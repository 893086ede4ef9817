package admin

import (
	"net/http"
	"time"
)

// Configuration answers GET /holdfast/v1/config.
type Configuration struct {
	File     string    `json:"file,omitempty"` // empty: the defaults
	Revision string    `json:"revision"`       // in force
	Since    time.Time `json:"since"`
	// Refused is the changed configuration that was not put in force; nil while what runs is what was written.
	Refused *RefusedConfiguration `json:"refused,omitempty"`
}

// RefusedConfiguration is one that could not take the place of the running one.
type RefusedConfiguration struct {
	Revision string    `json:"revision"` // "invalid" where the file is no configuration
	At       time.Time `json:"at"`
	Faults   []string  `json:"faults"` // as holdfast check says them
}

func (a *API) configuration(mux *http.ServeMux) {
	if a.Configuration == nil {
		return
	}
	mux.HandleFunc("GET /holdfast/v1/config", func(w http.ResponseWriter, _ *http.Request) { answer(w, a.Configuration()) })
}

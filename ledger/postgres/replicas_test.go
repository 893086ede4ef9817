package postgres

import (
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/ledgertest"
)

// TestReplicas: what is claimed and leased over two ledgers on one database is linearizable, as porcupine judges it.
func TestReplicas(t *testing.T) {
	ledgertest.RunReplicas(t, func(t *testing.T) (ledger.Ledger, ledger.Ledger) {
		url := emptyStore(t)
		return open(t, Config{URL: url}), open(t, Config{URL: url})
	})
}

package sqlite

import (
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/ledgertest"
)

// TestContractThroughFaulty: the decorator that injects faults keeps the contract itself. What it makes of it with faults is intent's to live with.
func TestContractThroughFaulty(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		return ledgertest.Faulty(mustOpen(t, Config{Path: tempPath(t)}), ledgertest.Faults{})
	})
	ledgertest.RunReopen(t, func(t *testing.T) func() ledger.Ledger {
		path := tempPath(t)
		return func() ledger.Ledger { return ledgertest.Faulty(mustOpen(t, Config{Path: path}), ledgertest.Faults{}) }
	})
}

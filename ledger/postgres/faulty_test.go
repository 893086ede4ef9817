package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/ledgertest"
)

// TestContractThroughFaulty: the decorator that injects faults keeps the contract itself. What it makes of it with faults is intent's to live with.
// The stores are schemas of one database.
func TestContractThroughFaulty(t *testing.T) {
	if testing.Short() {
		t.Skip("TestConformance has the same contract")
	}
	database, n := emptyStore(t), 0
	store := func() string {
		n++
		sep := "?"
		if strings.Contains(database, "?") {
			sep = "&"
		}
		return fmt.Sprintf("%s%ssearch_path=store%d", database, sep, n)
	}
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		return ledgertest.Faulty(open(t, Config{URL: store()}), ledgertest.Faults{})
	})
	ledgertest.RunReopen(t, func(t *testing.T) func() ledger.Ledger {
		url := store()
		return func() ledger.Ledger { return ledgertest.Faulty(open(t, Config{URL: url}), ledgertest.Faults{}) }
	})
}

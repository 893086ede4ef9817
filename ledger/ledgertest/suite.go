package ledgertest

import (
	"errors"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Run runs the contract. open returns a new, empty ledger; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) ledger.Ledger) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"Write/InsertIsReadBack", insertIsReadBack},
		{"Write/SettledIsReadBack", settledIsReadBack},
		{"Write/SettledAtOnce", settledAtOnce},
		{"Write/MalformedIsRefused", malformedIsRefused},
		{"Write/StaleChangesNothing", staleChangesNothing},
		{"Write/SettledIsFinal", settledIsFinal},
		{"Write/SameInsertTwice", sameInsertTwice},
		{"Write/RefusalsLeaveNeighbours", refusalsLeaveNeighbours},
		{"Write/OrderPerIntent", orderPerIntent},
		{"Write/SettlingsAreSeenAtOnce", settlingsAreSeenAtOnce},
		{"Write/RelaxedIsCommitted", relaxedIsCommitted},
		{"Write/AppendInAnyState", appendInAnyState},
		{"Write/CancelledWaiterLeavesItQueued", cancelledWaiter},
		{"Claim/HeldWhileUnsettled", claimHeld},
		{"Claim/KeptUntil", claimKept},
		{"Claim/Released", claimReleased},
		{"Claim/NoneToKeep", unclaimedSettle},
		{"Claim/TakeoverOfExpired", claimTakeover},
		{"Claim/LateSettleLeavesSuccessor", lateSettleLeavesSuccessor},
		{"Claim/OneOfFifty", oneOfFifty},
		{"Claim/Linearizable", linearizable},
		{"Read/NotFound", notFound},
		{"Read/Bodies", bodies},
		{"Read/Derived", derived},
		{"Write/Shelve", shelved},
		{"Write/Lease", leased},
		{"Write/BesideIsWholeOrNot", besideIsWholeOrNot},
		{"Write/BesideStandsAtItsOwnPlace", besideStandsAtItsOwnPlace},
		{"Read/DerivedKeys", derivedKeys},
		{"Read/History", history},
		{"List/Paging", paging},
		{"List/Filters", filters},
		{"List/OpenAndDue", openAndDue},
		{"List/DueIsNotHidden", dueIsNotHidden},
		{"List/Counts", counts},
		{"Cached/GoesWithItsAnswer", cachedGoesWithAnswer},
		{"Cached/Refused", cachedRefused},
		{"Cached/OneOfAKind", cachedReplaced},
		{"Cached/Paging", cachedPaging},
		{"Cached/Uncache", uncached},
		{"Keep/Owners", owners},
		{"Keep/CooldownOnlyExtends", cooldowns},
		{"Keep/Policy", policy},
		{"Keep/Secret", secret},
		{"Keep/Note", notes},
		{"Sweep/ClaimsAndDerived", sweepKeys},
		{"Sweep/Bodies", sweepBodies},
		{"Sweep/Rows", sweepRows},
		{"Sweep/CachedAnswersAreKept", sweepKeepsCached},
		{"Sweep/CachedGoWithTheirAnswers", sweepTakesCached},
		{"Sweep/DeadLetterIsKeptLonger", sweepDeadLetter},
		{"Sweep/OldestSettledFirstBeyondBound", sweepBound},
		{"Sweep/SmallBatches", sweepBatches},
		{"Clock/NeverBack", clockNeverBack},
		{"Closed", closed},
		{"Model", model},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := open(t)
			f := newFixture(t, l)
			c.test(t, f)
			if err := l.Healthy(); err != nil && !errors.Is(err, ledger.ErrClosed) {
				t.Errorf("Healthy() = %v", err)
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// RunReopen runs what the contract says of a ledger that is closed and opened again. open opens the same store
// each time it is called within one test, a new one per test.
func RunReopen(t *testing.T, open func(t *testing.T) func() ledger.Ledger) {
	t.Run("Reopen/StateSurvives", func(t *testing.T) { reopenState(t, open(t)) })
	t.Run("Reopen/ClockNeverBack", func(t *testing.T) { reopenClock(t, open(t)) })
	t.Run("Reopen/SecretIsStable", func(t *testing.T) { reopenSecret(t, open(t)) })
	t.Run("Reopen/CloseCommitsWhatIsQueued", func(t *testing.T) { closeCommits(t, open(t)) })
}

package mutants

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// root is the module's folder.
const root = "../.."

// mutants are all faults that the program can be built with, each with the test that must notice it.
var mutants = []struct {
	name, pkg, test string
	breaks          string // the rule
}{
	{"normal-sync", "ledger/sqlite", "TestPowerCuts", "what is acknowledged survives a power cut"},
	{"ack-early", "ledger/sqlite", "TestPowerCuts", "nobody is told before the sync"},
	{"retry-sync", "ledger/sqlite", "TestFaultOneSync", "a failed sync is not repeated on the same file"},
	{"blind-to-deletion", "ledger/sqlite", "TestFilesVanish", "nothing is acknowledged into a file that nobody will find"},
	{"unchecked-body", "ledger/sqlite", "TestOneByteOfAnAnswer", "a damaged answer is never replayed"},
	{"step-clock", "ledger/sqlite", "TestClockSteppedByAnHour", "semantics 11"},
	{"sweep-forgets-the-cache", "ledger/sqlite", "TestConformance/Sweep/CachedAnswersAreKept", "semantics 47: a row of the cache never outlives its answer, which is kept for it"},
	{"await-without-polling-floor", "internal/gateway", "TestAcrossAwaitsWithoutNotice", "issue 8: a notice is a hint, and what is awaited is read in any case"},
	{"peer-signature-unread", "internal/fleet", "TestForgedCalls", "design 9: no client reads what replicas tell each other"},
	{"peer-call-twice", "internal/fleet", "TestCallsAreForNowAndOnce", "what a replica said to another does not count twice"},
	{"peer-not-in-directory", "internal/fleet", "TestPeersRefuse", "whoever has stopped calls nobody"},
	{"orders-stay-here", "internal/admin", "TestOrdersReachTheFleet", "issue 8: an order to a route is the whole fleet's"},
	{"relay-splices-runs", "internal/gateway", "TestAcrossRelaySplicesNothing", "semantics 26: never spliced onto another run"},
	{"follower-of-a-failure-dispatches", "internal/gateway", "TestAcrossFailureIsShared", "semantics 21: a failing leader gives its followers its error, at every replica"},
	{"adopt-asks-nobody", "internal/gateway", "TestAcrossAdoptedTwice", "semantics 20: adoption works through a balancer without stickiness"},
	{"cache-key-without-tenant", "internal/gateway", "TestBR064", "design §1, 9: tenants never meet"},
	{"cache-form-as-stored", "internal/gateway", "TestCacheInEachForm", "interface §2: an answer has the form that its client asks for"},
	{"cache-guard-off", "cache", "TestBR061", "interface §5: no similarity makes another question the same"},
	{"canned-answer-settled", "internal/gateway", "TestLastResort", "semantics 14: a canned answer is never settled as success"},
	{"fails-open", "internal/gateway", "TestFailsClosed", "semantics 37: fail_closed_when decides what the caller sees"},
	{"cache-serves-partial", "internal/gateway", "TestBR066", "semantics 27: what is no whole answer is never cached"},
	{"cache-first-without-temperature", "internal/gateway", "TestCacheFirstIsForOneAnswer", "interface §5: a drawn answer is not given first"},
	{"check-then-set", "ledger/sqlite", "TestConformance", "semantics 12: a claim is one step"},
	{"stale-write", "ledger/sqlite", "TestConformance", "semantics 6: every move is a compare-and-set"},
	{"no-dispatched-record", "test/crash", "TestBR086AgentRepeatsItsBatch", "semantics 1: an attempt is on record before its bytes leave"},
	{"lease-frees-dispatched", "test/crash", "TestBR086AgentRepeatsItsBatch", "semantics 6, 7: what was dispatched is never free again"},
	{"callback-lost-on-crash", "test/crash", "TestCallbackCrash", "semantics 47: a job's end and what tells of it are one commit"},
	{"callback-signed-without-time", "internal/callback", "TestSignatureOfTheSpecification", "interface §5: who sends an old callback again is told from us by its time"},
	{"callback-follows-redirect", "internal/callback", "TestNothingComesBetween", "semantics 45: no answer leads a callback to an address that nobody checked"},
	{"callback-dials-private", "internal/callback", "TestRebindingName", "semantics 45: an address is checked when it is dialled"},
	{"release-on-settle", "internal/gateway", "TestReplaySurvivesRestart", "semantics 13, 14: a success holds its key"},
	{"absent-of-any-shape", "internal/reconcile", "TestGetAbsence", "semantics 8: an absence comes of an answer of the shape that is asked for alone"},
	{"reconcile-without-quiet", "intent", "TestReconcileLateEffect", "semantics 8: an absence counts only after the quiet period"},
	{"reconcile-on-first-read", "intent", "TestReconcileLateEffect", "semantics 8: a second read must agree"},
	{"reconcile-by-write-tool", ".", "TestReconcileByToolThatWrites", "semantics 8, design 5: a reconciler only reads"},
	{"key-from-call-id", "internal/gateway", "TestToolCallIDsDoNotCount", "interface §4: no id that a model's client makes is in a key"},
	{"replay-past-other-write", "internal/gateway", "TestToolWritesInOrder", "semantics 41: another write ends the window"},
	{"broken-file-is-defaults", ".", "TestReloadRefusesABrokenFile", "interface §5: a broken file is refused, with the running one kept"},
	{"restart-fields-ignored", ".", "TestReloadRefusesWhatTakesARestart", "a revision in force is in force as a whole"},
	{"reload-moves-calls", "internal/gateway", "TestReloadMovesNoCall", "semantics 5: a call is on record under the policy that it goes by"},
	{"reload-new-bulkheads", "internal/gateway", "TestReloadKeepsBulkheads", "semantics 33: slots in use count, whatever configuration gave them"},
	{"deaf-after-timeout", "internal/gateway", "TestBR001LateAnswer", "semantics 6: a late answer is evidence"},
	{"unknown-is-failed", "internal/gateway", "TestExternalUnknownIsHeld", "semantics 2: an unknown effect is held"},
	{"refuted-counts-again", "internal/gateway", "TestSumsSurviveARestart", "semantics 39: unknown counts as spent until reconciled, also behind a restart"},
	{"tool-approval-asks-nobody", "internal/mcp", "TestToolApproval", "interface §5: approval: dispatch asks the tool's owner first"},
	{"parked-tool-runs", "internal/mcp", "TestToolApproval", "interface §3: only a person takes a call out of owner_review"},
	{"breaker-lock-during-call", "breaker", "TestCallsAtOnce", "issue 8: no lock is held around a call"},
	{"probe-lease-local", "internal/shared", "TestBR037", "BR-037: one probe per cool-down over all replicas"},
	{"slot-lease-forever", "internal/shared", "TestNothingIsLentPastItsLease", "issue 8: slots are on lease, and a lease ends"},
	{"degraded-calls-store", "internal/shared", "TestFrozenStoreIsNotAsked", "issue 8: a store that is away costs no request a call"},
	{"unknown-contract-is-yes", "fallback", "TestContract", "design 8: what is not known of a tier is no yes"},
	{"estimate-binds-the-first", "fallback", "TestStart", "BR-056: an estimate moves a call, and keeps none from a tier that it would be sent to alone"},
	{"repeated-member-read-once", "internal/gateway", "TestNeeds", "issue 7: what a body says twice is asked if either asks it"},
	{"unknown-part-is-text", "internal/gateway", "TestNeeds", "issue 7: content that nobody knows is never taken for text"},
	{"fallback-across-boundary", "fallback", "TestContract", "interface §5: data goes nowhere else than where it went"},
	{"fallback-after-boundary", "fallback", "TestDenials", "semantics 22: no other model behind what a client has seen"},
	{"fallback-not-allowed", "fallback", "TestDenials", "interface §5: allowed_before_first_token: false is no fallback at all"},
	{"tier-prompt-shared", "internal/gateway", "TestBR058VariantsDoNotLeak", "each tier's request is made from the one that came"},
	{"auth-header-is-no-credential", "internal/gateway", "TestAuthHeaderStaysHome", "semantics 44: whatever header a provider reads its credential from carries one"},
	{"first-credential-alone", "internal/gateway", "TestAuthHeaderIsATenant", "semantics 44: the tenant is that of all credentials that are forwarded"},
	{"credential-to-another-provider", "internal/gateway", "TestTierCredentials", "interface §2: a client's credential goes to the provider of its path alone"},
	{"account-to-another-provider", "internal/gateway", "TestAccountHeadersStay", "interface §2: what a client says of its account stays at the provider of its path"},
	{"refusal-is-free", "internal/gateway", "TestRefusalIsPaid", "semantics 39: a refusal that another tier stands in for is billed, and counts"},
	{"translation-not-counted", "internal/gateway", "TestTiersAreMadeInTheirTurn", "semantics 45: what tiers are sent in a request's place counts against limits.body_memory"},
	{"tier-slot-leaked", "internal/gateway", "TestTierGivesItsSlotBack", "semantics 33: a tier that was left holds no slot"},
	{"used-up-is-a-mismatch", "internal/gateway", "TestRestartWithAllAttemptsMade", "semantics 7, 20: a retry of an unknown operation is answered, whichever attempts its tiers have had"},
	{"taken-over-at-the-first-tier", "internal/gateway", "TestRestartWithAllAttemptsMade", "semantics 7: what is taken over goes on where it was"},
	{"ancestors-do-not-count", "internal/gateway", "TestAncestorsCount", "semantics 37: attempts are counted over the whole life, adopted ones included"},
	{"job-waits-itself-out", "internal/gateway", "TestJobThatWouldAge", "design §4: fallback comes behind backpressure, and before a job ends"},
	{"used-up-is-the-end", "internal/gateway", "TestJobWithItsAttemptsMade", "design §4: another tier is asked before a job ends"},
	{"old-error-for-ever", "internal/gateway", "TestErrorOfWhoLeftEnds", "semantics 21: an error is given again for error_hold"},
	{"job-waits-for-a-tier-it-cannot-use", "internal/gateway", "TestJobIsNotBarredByATierThatItCannotUse", "design.md §4: a job waits for the tier that it begins at"},
	{"full-is-left-at-once", "internal/gateway", "TestWaitsForAFullTierFirst", "semantics 33: where bulkhead.wait says so a full tier is waited for, up to max_wait_ms, before the next one"},
	{"no-wait-behind-closed-tiers", "internal/gateway", "TestWaitsWhereNoOtherTierHasAPlace", "semantics 36: a call waits as long as it may where no other tier answers at once"},
	{"waited-once-for-all", "internal/gateway", "TestWaitsAtTheLastTier", "semantics 33: at the last tier a call waits where bulkhead.wait says so"},
	{"no-last-call", "queue", "TestLastCall", "design §4: fallback comes behind backpressure, and before a job ends"},
	{"tiers-count-together", "internal/gateway", "TestBR021AttemptsOfTiers", "semantics 37: attempts are counted for each tier"},
	{"sent-before-contract", "internal/gateway", "TestTierBeginsByContract", "issue 7: a contract is checked before anything is sent"},
	{"override-against-policy", "internal/gateway", "TestOverrideAgainstThePolicy", "interface §5: a policy without fallback has no other route"},
	{"stored-transient-failure", "internal/gateway", "TestBR014TransientFailureReleases", "semantics 14: no canned answer is kept"},
	{"dispatch-for-nobody", "internal/gateway", "TestClientThatLeavesBeforeDispatch", "semantics 25"},
	{"waiting-runs", "intent", "TestRecoveryBetweenAttempts", "semantics 36: between two attempts nothing is on its way"},
	{"discard-behind-unknown", "intent", "TestNothingPossiblySentIsDiscarded", "semantics 2, 8: what may have been sent is never called discarded"},
	{"join-what-failed", "internal/gateway", "TestFailureOnItsWayToTheRecord", "semantics 14: a failure that releases its key is given to nobody again"},
	{"dispatch-without-claim", "internal/gateway", "TestReplaySurvivesRestart", "semantics 12: the claim is in the intent's own write"},
	{"adopt-without-cas", "internal/gateway", "TestAdoptionIsExclusive", "semantics 20: exactly one predecessor, by one request"},
	{"adoption-starts-anew", "internal/gateway", "TestAdoptedAttemptsCount", "semantics 37: attempts are counted over the whole life, adopted ones included"},
	{"delivery-from-write", "internal/gateway", "TestLostAnswerIsAdopted", "semantics 19: a write that succeeded is no delivery"},
	{"close-is-receipt", "internal/gateway", "TestWhatACloseSays", "semantics 19: an orderly close before the answer was read is no receipt"},
	{"next-request-proves-nothing", "internal/gateway", "TestResetInTheNextAnswer", "semantics 19: who asks on has received the answer before"},
	{"end-apart", "internal/gateway", "TestLastEventWaitsForItsEnd", "semantics 19, 20: who hangs up at the last event has received"},
	{"drain-without-quota", "internal/gateway", "TestDrainQuota", "semantics 25"},
	{"resume-other-execution", "internal/gateway", "TestResume", "semantics 26: only from the recording of the same execution"},
	{"boundary-at-first-event", "internal/gateway", "TestLeadInIsHeld", "semantics 22, 23"},
	{"cut-is-complete", "internal/gateway", "TestBR043CutStreams", "semantics 27"},
	{"attempt-after-work", "intent", "TestAttemptIsCountedBeforeTheWork", "semantics 10: attempts are counted before the work"},
	{"leased-in-memory", "queue", "TestAFreeWorkerHasItFromTheBeginning", "semantics 6, 10: a job is leased on record before anything of it is touched"},
	{"reserve-out-of-turn", "queue", "TestSubmissionTakesNobodysPlace", "semantics 33, 38: a submission goes before nobody and beyond no limit"},
	{"claim-read-before-insert", "ledger/postgres", "TestReplicas/OneOfFifty", "semantics 12: a claim is one step, of all replicas"},
	{"ledger-write-without-version", "ledger/postgres", "TestReplicas/StaleChangesNothing", "semantics 6: every move is a compare-and-set"},
	{"lease-shared", "ledger/postgres", "TestReplicas/Lease", "semantics 6: one owner at a time, of all replicas"},
	{"commit-without-fence", "ledger/postgres", "TestCommitThatComesLate", "what was told as not written is never written later"},
	{"unknown-commit-is-none", "ledger/postgres", "TestCommitNobodyConfirmed", "what was committed is never told as refused"},
	{"lease-shared", "ledger/sqlite", "TestConformance/Write/Lease", "semantics 6: one owner at a time"},
	{"lease-by-wall-clock", "intent", "TestLeaseGoesByLedgerTime", "semantics 11: leases are in ledger time"},
	{"spend-unreserved", "spend", "TestReserveIsAtomic", "semantics 39: estimates are reserved before"},
	{"unknown-is-free", "internal/gateway", "TestUnknownCountsAsSpent", "semantics 39: unknown counts as spent"},
	{"approval-asks-nobody", "internal/gateway", "TestApproval", "interface §5: approval: dispatch asks an owner first"},
	{"no-backpressure", "internal/gateway", "TestBackpressure", "design §4: a route that has too much gets less"},
	{"drain-in-no-lane", "internal/gateway", "TestStreamWaitsForItsClient", "design §4: a drained stream stands in stream_recovery"},
	{"shed-ignores-priority", "internal/gateway", "TestShedByPriority", "design §4: under pressure low priority is shed first"},
	{"replay-copies", "internal/gateway", "TestJobIsGivenUp", "design §4: a replay moves the job"},
	{"job-follows-new-config", "internal/gateway", "TestJobWaitsForWhatIsNotConfigured", "a job goes where its record says, or nowhere"},
	{"job-skips-approval", "internal/gateway", "TestApprovalIsAskedOfWaitingJobs", "interface §5: approval: dispatch is asked of each pass of a job"},
	{"approval-takes-over", "internal/gateway", "TestApprovalTakesOverNothing", "interface §5: nothing is sent before its owner has approved it"},
	{"async-says-in-flight", "internal/gateway", "TestEveryDoorAnswersAHeldKeyAlike", "semantics 13, 14: a held key answers with what its call has come to, whoever asks"},
	{"late-job-acknowledged", "internal/gateway", "TestRefusedSubmissionIsNobodysJob", "semantics 9: what was refused is promised to nobody else"},
	{"late-job-acknowledged", "queue", "TestRefusedSubmissionIsNobodysWork", "semantics 9: nor done by anybody"},
	{"replay-waits-for-old-route", "internal/gateway", "TestReplayByAnotherRouteWaitsForThatRoute", "semantics 34: a bar holds the jobs of its own route"},
	{"snooze-job-only", "internal/gateway", "TestBR024JobWaitsAsToldAndSiblingsToo", "design §4: Retry-After is the route's too"},
	{"release-at-once", "internal/gateway", "TestThirtyWorkersAreToldToWait", "design §4: who was told the same time does not come in one instant"},
	{"release-at-once", "queue", "TestBarredLine", "design §4: nor who waited for the same route"},
	{"release-gives-up", "queue", "TestStoreAwayAsAJobIsPutBack", "semantics 7, 10: a definite refusal is never written as unknown, nor a job left leased"},
	{"release-gives-up", "internal/gateway", "TestStoreAwayAsACallbackIsRefused", "semantics 7, 47: nor a callback"},
	{"strays-stay", "queue", "TestStraysAreFreed", "semantics 6: found by its state, not by its lease"},
	{"release-order-ignored", "queue", "TestOrderIsTheLogs", "semantics 38: jobs leave in release_order"},
	{"bar-outlives-its-cause", "queue", "TestWhatOpensARouteReleasesItsJobs", "semantics 34: a reset ends a cool-down for what waits, too"},
	{"gone-stays-known", "queue", "TestWhatIsOverLeavesTheSchedule", "what waits no more leaves the schedule with the next reading of the log"},
	{"one-route-fills-all", "queue", "TestDeadRoutesKeepNobodyOut", "design §4: what waits for one route keeps no other out"},
	{"one-route-takes-all", "queue", "TestWhatHangsLeavesWorkers", "design §4: a route that hangs holds up its like alone"},
	{"ageing-before-heartbeat", "intent", "TestManyThatAgeHoldUpNoHeartbeat", "semantics 6: a lease lasts as long as its owner lives, whatever he is busy with"},
	{"lease-without-fence", "intent", "TestFrozenOwnerIsFenced", "semantics 6: what was taken over is its former owner's no more, wherever that one wakes"},
	{"spread-by-order", "ledger/spread", "TestOrderDoesNotMatter", "issue 8: a key has one store, however a replica lists them"},
	{"away-is-not-found", "ledger/spread", "TestOneStoreAway", "semantics 9: what cannot be asked is no evidence that nothing is there"},
	{"one-heartbeat-for-all-stores", "ledger/spread", "TestHeartbeatOfEachStore", "semantics 6: a lease leans on the heartbeat that those see who would take it over"},
	{"heartbeat-unchecked-before-send", "internal/gateway", "TestBR068FrozenBeforeTheFirstByte", "semantics 6: who stood still behind an attempt's record sends nothing"},
	{"takeover-without-grace", "intent", "TestSuccessorIsPatient", "semantics 6, 11: a successor waits for what clocks are off by"},
	{"stop-keeps-its-lease", "intent", "TestStopEndsTheLease", "semantics 6: nobody waits for whoever has stopped in order"},
	{"checks-without-lease", "intent", "TestChecksAreMadeOnce", "semantics 8: of many replicas one makes a check"},
	{"promise-without-vouch", "intent", "TestPromisedJobIsNotTakenBack", "semantics 9: what somebody was told of is not taken back"},
	{"notify-without-polling-floor", "queue", "TestAnotherReplicasJobs", "semantics 6: found by its state, whether or not a notice comes"},
	{"age-ignored", "queue", "TestNothingTooOldIsDispatched", "interface §5: nothing older than max_queue_age is dispatched"},
	{"crash-takes-all", "test/crash", "TestPoisonedJobKillsItsWorkers", "semantics 10: a lost worker is not the job's fault"},
	{"snooze-ignores-wait", "internal/gateway", "TestBR024JobWaitsAsToldAndSiblingsToo", "semantics 36: ready_at is written down"},
	{"unframed-is-whole", "internal/gateway", "TestToolAnswerWithoutFraming", "semantics 3: a truncated answer is unknown"},
	{"break-behind-the-end", "internal/gateway", "TestBreakBehindTheEnd", "semantics 27: what its own end closed is not cut"},
	{"document-as-element", "internal/gateway", "TestDocumentForAnArray", "semantics 24: an error behind it is one that raises"},
	{"torn-refusal-is-a-cut", "internal/gateway", "TestTornRefusals", "issue 7: content-policy refusals fall back only where the policy says so"},
	{"bridge-without-hold", "test/simulation", "TestMutantShows", "semantics 23: no lead-in is a sign of life"},
	{"adopt-without-cas", "test/simulation", "TestMutantShows", "semantics 20, in any history"},
	{"delivery-from-write", "test/simulation", "TestMutantShows", "semantics 19, in any history"},
	{"drain-without-quota", "test/simulation", "TestMutantShows", "semantics 25, in any history"},
	{"boundary-at-first-event", "test/simulation", "TestMutantShows", "semantics 22, 23, in any history"},
	{"resume-other-execution", "test/simulation", "TestMutantShows", "semantics 26, in any history"},
	{"audit-learns-nothing", "internal/audit", "TestWhatMovesByItselfIsNoEffect", "what changes while nobody writes is no effect"},
	{"audit-trusts-read-only", "internal/audit", "TestClocksAndCounters", "readOnlyHint is a claim: a reader that writes is judged as a writer"},
	{"audit-no-third-call", "internal/audit", "TestHiddenFaults", "two calls at once that leave nothing are not safe"},
	{"audit-never-gives-up", "internal/audit", "TestHiddenFaults", "a call that is cancelled while it runs is one of the repeats"},
	{"audit-safe-without-late", "internal/audit", "TestSafeNeedsALateRepeat", "what nobody repeated late is not safe"},
	{"audit-accuses-at-once", "internal/audit", "TestWhatSomebodyElseDoesIsNoEffect", "a tool is accused of what its repeat does again, not of what somebody else did meanwhile"},
	{"idempotent-hint-licence", "internal/mcp", "TestBR084HintsLicenseNothing", "design 6: idempotentHint is never a licence"},
	{"key-from-call-id", "internal/mcp", "TestBR082ModelRepeatsItsCall", "interface §4: no id that a client makes anew is in a key"},
	{"window-past-other-write", "internal/mcp", "TestWindowEndsWithAnotherWrite", "semantics 41: A, B, A are three effects"},
	{"business-key-alone", "internal/gateway", "TestToolBusinessKeyReused", "other arguments under a business key are refused, not answered by the first call's"},
	{"attached-scope-lost", "internal/cli", "TestProxyTakesTheStoreOver", "semantics 41: a session lasts as long as its client, not as the store's holder"},
	{"windows-forgotten", "internal/cli", "TestProxyTakesTheStoreOver", "semantics 41: a window goes on in the process that takes the store over"},
	{"tool-unknown-is-failed", "internal/mcp", "TestUnknownIsHeld", "semantics 2, 4"},
	{"resend-after-loss", "internal/mcp", "TestUnknownIsHeld", "a write is never sent again to a server that was lost over it"},
	{"forward-before-claim", "test/crash", "TestMCPProxyIsKilled", "semantics 1: claim and attempt are durable before the call leaves"},
	{"no-dispatched-record", "test/simulation", "TestMutantShows", "semantics 1, in any history"},
	{"unknown-is-failed", "test/simulation", "TestMutantShows", "semantics 2, in any history"},
	{"lease-frees-dispatched", "test/simulation", "TestMutantShows", "semantics 6, 7, in any history"},
	{"stale-write", "test/simulation", "TestMutantShows", "semantics 6, in any history: two that go on with one call"},
	{"step-clock", "test/simulation", "TestMutantShows", "semantics 11, in any history"},
	{"check-then-set", "test/simulation", "TestMutantShows", "semantics 12, in any history: rivals for one key"},
	{"dispatch-without-claim", "test/simulation", "TestMutantShows", "semantics 12, in any history"},
	{"release-on-settle", "test/simulation", "TestMutantShows", "semantics 13, 14, in any history"},
	{"stored-transient-failure", "test/simulation", "TestMutantShows", "semantics 14, in any history"},
	{"definite-undenied", "internal/gateway", "TestToolDenied", "semantics 3: a route may say otherwise"},
	{"secret-in-answer", "internal/gateway", "TestSecretsStayHere", "semantics 45: secrets are in no row, and come back to nobody"},
	{"key-by-spelling", "idempotency", "TestTemplateValuesCannotPassForOthers", "interface.md §4: a key of business arguments"},
	{"fingerprint-without-path", "test/simulation", "TestMutantShows", "semantics 15, 16, in any history"},
	{"numbers-as-float64", "test/simulation", "TestMutantShows", "interface §4, in any history"},
	{"dispatch-for-nobody", "test/simulation", "TestMutantShows", "semantics 25, in any history"},
	{"cut-is-complete", "test/simulation", "TestMutantShows", "semantics 27, in any history"},
	{"normal-sync", "test/simulation", "TestMutantShows", "design §1.1, in any history: power cuts"},
	{"ack-early", "test/simulation", "TestMutantShows", "design §1.1, in any history: power cuts"},
	{"retry-sync", "test/simulation", "TestMutantShows", "design §1.1, in any history: a disk that forgets what it failed to sync"},
	{"secret-in-gzip", "internal/gateway", "TestSecretsComeBackInNoCoding", "semantics 45: no coding hides a secret from the search for it"},
	{"verdict-on-masked", "internal/gateway", "TestMaskingChangesNoVerdict", "semantics 3, 4: an answer means what the far side said"},
	{"secret-from-mcp", "internal/mcp", "TestSecretsOfMCPServersStayHere", "semantics 45: nor from an MCP server"},
	{"verdict-on-masked", "internal/mcp", "TestSecretsOfMCPServersStayHere", "semantics 3, 4: an answer means what the far side said"},
	{"definite-undenied", "internal/mcp", "TestDeniedIsNeverDefinite", "semantics 3: a policy may say otherwise"},
	{"either-of-two", "internal/mcp", "TestTwofoldAnswerProvesNothing", "semantics 4: no word is taken from an answer that says two things"},
	{"secret-in-read", "internal/reconcile", "TestReadsShowNoSecret", "semantics 45: nor does what was read for an unknown"},
	{"fingerprint-without-path", "idempotency", "TestPathCounts", "semantics 15, 16"},
	{"numbers-as-float64", "internal/canon", "TestNumbersAreExact", "interface §4: all digits of numbers are kept"},
	{"jitter-without-floor", "retry", "TestFloorHolds", "interface §5: Retry-After is a floor"},
	{"retry-beyond-share", "retry", "TestRetriesAreAShare", "semantics 35: retries are a share of the traffic"},
	{"probe-lost-on-panic", "internal/gateway", "TestPanicGivesTheProbeBack", "semantics 34: every ending gives the probe's slot back"},
	{"cancel-is-failure", "internal/gateway", "TestBR031CancelsDoNotCount", "design §2: a client that leaves says nothing of the provider"},
	{"retry-outside-breaker", "decision", "TestBreakerEndsInnerRetries", "design §2: retries end once their breaker is open"},
	{"unknown-field-dropped", "translate", "TestMismatch", "issue 7: what cannot be translated is a mismatch, never dropped"},
	{"temperature-beyond-range", "translate", "TestMismatch", "issue 7: what the far side has no value for is a mismatch, never sent"},
	{"results-by-place", "translate", "TestGolden", "a result belongs to its call by its id, whatever the order"},
	{"cut-stream-completed", "translate", "TestRecordedStreams", "a stream that was cut is never told as a whole answer"},
	{"translated-with-credential", "internal/gateway", "TestTranslated", "semantics 44: a client's credential is for the provider that its path names alone"},
	{"translated-error-judged-as-told", "internal/gateway", "TestTranslatedErrorIsTheFarSides", "what an error means is read in the words of whoever said it"},
	{"translated-break-completes", "internal/gateway", "TestTelling", "semantics 27: a connection that breaks ends no answer"},
	{"translated-waits-for-more", "internal/gateway", "TestTellingOfNothing", "an event leaves when it has come, whatever half an event stands behind it"},
	{"translated-silence-is-idle", "internal/gateway", "TestTellingOfNothing", "semantics 30: a provider that sends what its client is not told is not idle"},
	{"translated-usage-as-told", "internal/gateway", "TestTranslated", "semantics 39: what an attempt has cost is known, whether or not its client asked"},
	{"budget-for-each-attempt", "deadline", "TestRemaining", "design §1: all attempts and waits spend one budget"},
	{"reserve-ignored", "bulkhead", "TestReserve", "semantics 33: Batch never takes reserved interactive capacity"},
	{"waits-without-order", "bulkhead", "TestOrder", "interface §2: Holdfast-Priority decides who goes first"},
	{"slot-lost-on-cancel", "bulkhead", "TestSlotAtTheInstantOfCancel", "semantics 33: every slot comes back"},
	{"probe-slot-lost", "breaker", "TestSlotReturns", "semantics 34: a probe without a verdict gives its slot back"},
	{"late-result-closes", "breaker", "TestLateResultsChangeNothing", "a call from before the trip says nothing of the provider now"},
	{"shorter-cooldown-wins", "internal/route", "TestBR028LaterCooldownWins", "semantics 34: a cool-down only ever extends"},
	{"cooldown-in-memory", "internal/route", "TestRestartForgetsNoCooldown", "semantics 34: a cool-down survives a restart"},
	{"upload-key-expires", "internal/admin", "TestUploadKeepsItsKey", "issue 6: an interrupted upload that is gone on with submits nothing twice"},
	{"fresh-job-adopts", "internal/gateway", "TestFreshJobIsItsOwn", "interface §2: Holdfast-Fresh adopts nothing"},
	{"job-forgets-its-submitter", "internal/gateway", "TestJobOfATierKeepsItsSubmitter", "semantics 44: a job is its submitter's, whichever provider's its tier is"},
	{"drills-ignored", "internal/admin", "TestFaultsOnlyWhereDrillsAreAllowed", "drills: nobody injects faults where the configuration does not allow it"},
	{"release-without-jitter", "internal/route", "TestOneProbeFollows", "design §4: who waited for a route does not rush in at one instant"},
}

// TestMutants runs each named test twice: it passes in the program as it is, and fails in the broken one.
func TestMutants(t *testing.T) {
	bins := newBinaries(t.TempDir())
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			bin, err := bins.of(m.pkg)
			if err != nil {
				t.Fatal(err)
			}
			if err := bins.sound(bin, m.pkg, m.test); err != nil {
				t.Fatalf("%s fails without a mutant: %v", m.test, err)
			}
			switch out, err := run(bin, m.pkg, m.test, m.name); {
			case err == nil:
				t.Errorf("survived: %s in %s does not notice it (%s)", m.test, m.pkg, m.breaks)
			case !bytes.Contains(out, []byte("--- FAIL: "+m.test)) && !bytes.Contains(out, []byte("panic: ")):
				t.Errorf("%s did not run to its verdict: %v\n%s", m.test, err, out)
			}
		})
	}
}

// TestEveryMutantIsKilled holds the table to the program: a fault that no test is named for proves nothing.
func TestEveryMutantIsKilled(t *testing.T) {
	listed := map[string]bool{}
	for _, m := range mutants {
		listed[m.name] = true
	}
	found, err := faults()
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range found {
		if !listed[name] {
			t.Errorf("%s: the mutant %q has no test in the table", at, name)
		}
	}
	for name := range listed {
		if _, ok := found[name]; !ok {
			t.Errorf("the mutant %q is in the table and not in the program", name)
		}
	}
	if len(found) < 8 {
		t.Errorf("only %d mutants", len(found))
	}
}

// faults finds every mutant.On("…") of the program.
func faults() (map[string]token.Position, error) {
	found := map[string]token.Position{}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if name, ok := switched(n); ok {
				found[name] = files.Position(n.Pos())
			}
			return true
		})
		return nil
	})
	return found, err
}

// switched reads the name in mutant.On("name").
func switched(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "On" {
		return "", false
	}
	if pkg, ok := fun.X.(*ast.Ident); !ok || pkg.Name != "mutant" {
		return "", false
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}

// binaries are the packages' test programs with the faults built in, each compiled once.
type binaries struct {
	dir   string
	mu    sync.Mutex
	built map[string]func() (string, error)
	tried map[string]func() error
}

func newBinaries(dir string) *binaries {
	return &binaries{dir: dir, built: map[string]func() (string, error){}, tried: map[string]func() error{}}
}

func (b *binaries) of(pkg string) (string, error) {
	b.mu.Lock()
	build := b.built[pkg]
	if build == nil {
		build = sync.OnceValues(func() (string, error) {
			out := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
			cmd := exec.Command("go", "test", "-tags", "mutant", "-c", "-o", out, "./"+pkg)
			cmd.Dir = root
			if text, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, text)
			}
			return out, nil
		})
		b.built[pkg] = build
	}
	b.mu.Unlock()
	return build()
}

// sound runs a test without a mutant, once for all mutants that it is named for.
func (b *binaries) sound(bin, pkg, test string) error {
	b.mu.Lock()
	try := b.tried[pkg+" "+test]
	if try == nil {
		try = sync.OnceValue(func() error {
			out, err := run(bin, pkg, test, "")
			if err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			if !bytes.Contains(out, []byte("--- PASS: "+test)) {
				return fmt.Errorf("there is no such test\n%s", out)
			}
			return nil
		})
		b.tried[pkg+" "+test] = try
	}
	b.mu.Unlock()
	return try()
}

// limit bounds one run; a mutant that makes its test wait for ever is noticed by that.
const limit = 2 * time.Minute

func run(bin, pkg, test, name string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, bin, "-test.run=^"+test+"$", "-test.v", "-test.timeout="+limit.String())
	cmd.Dir = filepath.Join(root, pkg)
	cmd.Env = append(os.Environ(), mutant.Env+"="+name, "HOLDFAST_FULL=") // a tenth of a programme is enough to notice
	return cmd.CombinedOutput()
}

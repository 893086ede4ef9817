package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// replayMany are the flags of a replay of more than one job.
type replayMany struct {
	in     admin.Replay
	pick   listOptions // --all: what is listed with these
	all    bool
	class  string // last_error_type
	rate   string
	dryRun bool
	asJSON bool
	others map[string]int // by last_error_type: jobs that class left out
}

func (m *replayMany) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&m.all, "all", false, "every job that is in the dead letter at this moment, as far as the filters go")
	f.StringVar(&m.pick.workflow, "workflow", "", "with --all: only this workflow")
	f.StringVar(&m.class, "last-error", "", "with --all: only jobs whose last error was this, such as server_is_overloaded: LAST ERROR of deadletter list")
	f.StringVar(&m.pick.older, "older-than", "", "with --all: created before: an age such as 10m, or a time such as 2026-11-29T20:00:00Z")
	f.StringVar(&m.pick.younger, "newer-than", "", "with --all: created after, likewise")
	f.StringVar(&m.rate, "rate", "1/s", "with several jobs: how many are moved in a time: 5/s, 30/m")
	f.BoolVar(&m.dryRun, "dry-run", false, "say what would become of each, and move none")
}

// moved is what became of one job.
type moved struct {
	ID       string `json:"id"`
	Does     string `json:"does,omitempty"`    // send, settle or answer
	Refused  string `json:"refused,omitempty"` // why it was not moved
	Attempts int    `json:"attempts"`
	Billed   int    `json:"possibly_billed"`
	DryRun   bool   `json:"dry_run"`
}

// run replays the jobs that args name, or that the filters find, one after the other. Which they are is settled before the
// first is moved.
func (m *replayMany) run(cmd *cobra.Command, addr, tenant string, args []string) error {
	if m.all == (len(args) > 0) {
		return usagef("replay takes KEY_OR_ID …, or --all with filters")
	}
	for _, name := range []string{"workflow", "last-error", "older-than", "newer-than"} {
		if !m.all && cmd.Flags().Changed(name) {
			return usagef("--%s is of --all: jobs that are named are replayed whatever they are", name)
		}
	}
	if missing := m.in.Missing(); missing != nil {
		return usagef("a replay needs all five fields; missing: %s", strings.Join(flagsOf(missing), ", "))
	}
	if err := admin.CheckResult(m.in.IdempotencyResult); err != nil {
		return usagef("--idempotency-result %w", err)
	}
	gap, err := perTime(m.rate)
	if err != nil {
		return err
	}
	api, err := dialAdmin(addr)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	jobs, err := m.choose(ctx, api, tenant, args)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: no job was moved yet; the same command begins anew", context.Cause(ctx))
	}
	if err == nil && len(jobs) == 0 {
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), m.nothing())
	}
	if err != nil {
		return err
	}
	out, err := m.each(ctx, api, jobs, gap, cmd.ErrOrStderr())
	return errors.Join(m.report(cmd.OutOrStdout(), out, len(jobs)), err)
}

// choose finds the jobs by name or by filter.
func (m *replayMany) choose(ctx context.Context, api *adminAPI, tenant string, args []string) (jobs []admin.Intent, err error) {
	for _, name := range args {
		v, err := lookup(ctx, api, name, tenant)
		if err != nil && len(args) > 1 {
			err = fmt.Errorf("%w; none of the %d jobs was moved", err, len(args))
		}
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, v)
	}
	if !m.all {
		return jobs, nil
	}
	m.pick.lane, m.pick.jobs, m.pick.tenant, m.pick.limit = "dead_letter", true, tenant, 0
	_, err = m.pick.each(ctx, api, func(v admin.Intent) error {
		if m.class == "" || v.LastErrorType == m.class {
			jobs = append(jobs, v)
			return nil
		}
		if m.others == nil {
			m.others = map[string]int{}
		}
		m.others[v.LastErrorType]++
		return nil
	})
	return jobs, err
}

// nothing says what there is where the filters of --all find no job.
func (m *replayMany) nothing() string {
	if len(m.others) == 0 {
		return "no job in the dead letter fits; `holdfast deadletter list` shows what is there"
	}
	var there []string
	for _, class := range slices.Sorted(maps.Keys(m.others)) {
		there = append(there, fmt.Sprintf("%s (%d)", or(clean(class, 40)), m.others[class]))
	}
	if more := len(there) - classesSaid; more > 0 {
		there = append(there[:classesSaid], fmt.Sprintf("and %d others", more))
	}
	return fmt.Sprintf("no job fits --last-error %s; the last errors there are: %s", clean(m.class, 40), strings.Join(there, ", "))
}

// classesSaid bounds the last errors that are named: providers make them up.
const classesSaid = 20

// progressEvery is how often a long replay says how far it is.
const progressEvery = 5 * time.Second

// each moves one job after the other, a gap apart. A job that is refused holds up no other; an API that is away ends it,
// and so does a signal: what was not moved is still in the dead letter.
func (m *replayMany) each(ctx context.Context, api *adminAPI, jobs []admin.Intent, gap time.Duration, report io.Writer) ([]moved, error) {
	if m.dryRun {
		gap = time.Nanosecond
	}
	next := time.NewTicker(gap)
	defer next.Stop()
	said := time.Now()
	var out []moved
	for i, v := range jobs {
		if i > 0 {
			select {
			case <-ctx.Done():
			case <-next.C:
			}
		}
		if ctx.Err() != nil {
			return out, m.interrupted(ctx, out, jobs, "")
		}
		done, err := m.one(ctx, api, v)
		if err != nil && ctx.Err() != nil {
			return out, m.interrupted(ctx, out, jobs, v.ID)
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", v.ID, err)
		}
		out = append(out, done)
		if time.Since(said) >= progressEvery {
			said = time.Now()
			if _, err := fmt.Fprintf(report, "%d of %d\n", i+1, len(jobs)); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// interrupted says what was done by then, and how to go on.
func (m *replayMany) interrupted(ctx context.Context, out []moved, jobs []admin.Intent, during string) error {
	refused := 0
	for i := range out {
		if out[i].Refused != "" {
			refused++
		}
	}
	said := fmt.Sprintf("of %d jobs %d were moved, %d refused", len(jobs), len(out)-refused, refused)
	switch {
	case m.dryRun:
		return fmt.Errorf("%w: %d of %d jobs were asked about, none was moved", context.Cause(ctx), len(out), len(jobs))
	case during != "":
		said += ", and " + during + " may have been"
	}
	return fmt.Errorf("%w: %s; what was not moved is in the dead letter, and the same command goes on with it", context.Cause(ctx), said)
}

// one moves a job, or asks what would become of it. What is refused for this job alone is no error.
func (m *replayMany) one(ctx context.Context, api *adminAPI, v admin.Intent) (moved, error) {
	q := url.Values{}
	if m.dryRun {
		q.Set("dry_run", "true")
	}
	done := moved{ID: v.ID, Attempts: v.Attempt, Billed: v.PossiblyBilled, DryRun: m.dryRun}
	var ran struct {
		admin.DryRun
		State string `json:"state"`
		Lane  string `json:"lane"`
	}
	err := api.call(ctx, http.MethodPost, "/holdfast/v1/jobs/"+url.PathEscape(v.ID)+"/replay", q, m.in, &ran)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.status == http.StatusConflict:
		done.Refused = refused.message
	case errors.Is(err, errNoSuch):
		done.Refused = "it is no job"
	case err != nil:
		return done, err
	case m.dryRun:
		done.Does = ran.Does
	case ran.State != "settled":
		done.Does = admin.Sends
	case v.State == "settled":
		done.Does = admin.Answered
	default:
		done.Does = admin.Settles
	}
	return done, nil
}

// doing is what a replay does or would do, for people.
var doing = map[string][2]string{
	admin.Sends:    {"sent again", "would be sent again"},
	admin.Settles:  {"settled as a success", "would be settled as a success"},
	admin.Answered: {"was settled already", "is settled already"},
}

// report prints what became of each. Jobs that were refused make an error of it.
func (m *replayMany) report(w io.Writer, out []moved, jobs int) error {
	refused, dry := 0, 0
	if m.dryRun {
		dry = 1
	}
	for _, d := range out {
		words := doing[d.Does][dry]
		if d.Refused != "" {
			refused++
			words = "refused: " + d.Refused
		}
		if m.asJSON {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s (%d attempts, %d possibly billed)\n", d.ID, words, d.Attempts, d.Billed); err != nil {
			return err
		}
	}
	if m.asJSON {
		if out == nil {
			out = []moved{}
		}
		if err := writeJSON(w, out); err != nil {
			return err
		}
	} else if jobs != 1 {
		if _, err := fmt.Fprintf(w, "%d jobs: %d %s, %d refused\n", len(out), len(out)-refused, [2]string{"moved", "would move"}[dry], refused); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d jobs were refused", refused, len(out))
	}
	return nil
}

// perTime reads a rate, N/s, N/m or N/h, as the time from one to the next.
func perTime(rate string) (time.Duration, error) {
	number, unit, _ := strings.Cut(rate, "/")
	per, known := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(n > 0) || n > 1e6 || float64(per)/n > float64(24*time.Hour) {
		return 0, usagef("--rate is a number in a time, such as 5/s, 30/m or 100/h, not %q", rate)
	}
	return time.Duration(float64(per) / n), nil
}

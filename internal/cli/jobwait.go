package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/admin"
)

// errNoEnd marks that of a job which is followed no end was seen, where a status of 1 would say that it has ended otherwise.
var errNoEnd = errors.New("its end was not seen")

// noEnd is an error of whoever follows a job, and not of the job.
type noEnd struct{ error }

func (e *noEnd) Unwrap() []error { return []error{e.error, errNoEnd} }

// follower follows a job to its end.
type follower struct {
	limit  time.Duration // 0: to the end
	away   time.Duration // how long a gateway may be away meanwhile
	asJSON *bool
}

// errTimeUp ends a wait.
var errTimeUp = errors.New("the time of --timeout is over")

func (f *follower) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.limit, "timeout", 0, "how long to wait; 0 is until the end")
	cmd.Flags().DurationVar(&f.away, "reconnect", 2*time.Minute, "how long a gateway that is away, as over a restart, is asked again")
}

func (f *follower) check() error {
	if f.limit < 0 || f.away < 0 {
		return usagef("--timeout and --reconnect are 0 or longer")
	}
	return nil
}

// bound is the context of a wait.
func (f *follower) bound(parent context.Context) (context.Context, func()) {
	ctx, stop := interruptible(parent)
	if f.limit == 0 {
		return ctx, stop
	}
	ctx, over := context.WithTimeoutCause(ctx, f.limit, errTimeUp)
	return ctx, func() {
		over()
		stop()
	}
}

func jobsWaitCommand() *cobra.Command {
	var addr, tenant string
	var asJSON bool
	f := follower{asJSON: &asJSON}
	cmd := &cobra.Command{
		Use:   "wait KEY_OR_ID",
		Short: "Follow a job to its end: exit 0 on success, 1 where it ends otherwise or waits for a person",
		Long: `Follow a job to its end, and say each step as it comes. A gateway that is away meanwhile, as over a restart, is asked again for
--reconnect; the job goes on whether it is followed or not.

Exit status: 0 it succeeded; 1 it ended otherwise, or waits for evidence or a person; 3 its end was not seen: --timeout is over,
the gateway stayed away, or it knows no such job; 130 interrupted.`,
		Example: `  holdfast jobs wait doc-17
  holdfast jobs wait 019ad3c8-5f0e --timeout 10m --json`,
		Args: oneArg("KEY_OR_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			ctx, stop := f.bound(cmd.Context())
			defer stop()
			v, err := f.find(ctx, api, args[0], tenant, cmd.ErrOrStderr())
			if err == nil && v.JobID == "" {
				err = fmt.Errorf("%s is no job: holdfast intents show %s shows what it is", v.ID, v.ID)
			}
			if err != nil {
				return &noEnd{err}
			}
			return f.follow(ctx, api, v, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of a caller's own key (default any that was seen lately)")
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

// find looks a job up, over a restart of its gateway as well.
func (f *follower) find(ctx context.Context, api *adminAPI, name, tenant string, report io.Writer) (admin.Intent, error) {
	ticker := time.NewTicker(waitEvery)
	defer ticker.Stop()
	gone := absence{limit: f.away, report: report}
	for {
		v, err := lookup(ctx, api, name, tenant)
		if ctx.Err() != nil {
			return v, fmt.Errorf("%w: %s was not found yet; `holdfast jobs wait %s` looks for it again", context.Cause(ctx), clean(name, 80), clean(name, 80))
		}
		if away := gone.note(err); away != nil || err == nil {
			return v, away
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// follow says a job's steps as they come and prints it at its end. Any end but success is an error.
func (f *follower) follow(ctx context.Context, api *adminAPI, v admin.Intent, out, report io.Writer) error {
	v, err := f.end(ctx, api, v, report)
	if err != nil {
		return &noEnd{err}
	}
	if err := sayMoved(out, &v, *f.asJSON); err != nil {
		return err
	}
	if v.Outcome != "success" {
		return errors.New(otherwise(&v))
	}
	return nil
}

// otherwise says of a job that has not succeeded why, and which command is next.
func otherwise(v *admin.Intent) string {
	what, next := "waits for evidence or a person", ""
	const word = " --by NAME --reason TEXT"
	switch {
	case v.State == "settled":
		what, next = "ended otherwise", fmt.Sprintf("`holdfast trace %s` tells its story", v.ID)
	case v.Lane == intent.LaneReview && v.State == "unknown":
		next = fmt.Sprintf("look at the far side, then `holdfast review approve %s%s --idempotency-result not_executed` (or executed), or review reject", v.ID, word)
	case v.Lane == intent.LaneReview:
		what, next = "waits for its owner", fmt.Sprintf("`holdfast review approve %s%s`, or review reject", v.ID, word)
	case v.Lane == intent.LaneDead:
		what, next = "was given up", fmt.Sprintf("`holdfast deadletter show %s`, then deadletter replay or discard", v.ID)
	default:
		next = fmt.Sprintf("look at the far side, then `holdfast intents resolve %s --outcome success%s` (or failed)", v.ID, word)
	}
	why := ""
	if reason := admin.Why(v.History); reason != "" {
		why = "; because " + clean(reason, 400)
	}
	return fmt.Sprintf("%s %s: %s%s; next: %s", v.ID, what, standing(v), why, next)
}

// waitEvery is how often a job is looked at.
const waitEvery = 250 * time.Millisecond

// end looks at a job until it is settled, or only evidence or a person moves it.
func (f *follower) end(ctx context.Context, api *adminAPI, v admin.Intent, report io.Writer) (admin.Intent, error) {
	ticker := time.NewTicker(waitEvery)
	defer ticker.Stop()
	gone, said := absence{limit: f.away, report: report}, ""
	looked := false // at it by its id, with its history, which says why
	for {
		if now := standing(&v); now != said {
			said = now
			if _, err := fmt.Fprintf(report, "%s: %s\n", v.ID, now); err != nil {
				return v, err
			}
		}
		if done := v.State == "settled" || v.State == "unknown" || intent.Parked(v.Lane); done && (v.Outcome == "success" || v.History != nil || looked) {
			return v, nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		next, err := api.intent(ctx, v.ID)
		switch {
		case ctx.Err() != nil:
			return v, fmt.Errorf("%w: %s is not done: %s; it goes on, and `holdfast jobs wait %s` follows it again", context.Cause(ctx), v.ID, standing(&v), v.ID)
		case err == nil:
			v, looked = next, true
		}
		if err := gone.note(err); err != nil {
			return v, fmt.Errorf("%s: %w; the job goes on where its gateway does, and `holdfast jobs wait %s` follows it again", v.ID, err, v.ID)
		}
	}
}

// absence is how long a gateway has been away that is asked again and again.
type absence struct {
	limit       time.Duration
	report      io.Writer
	since, told time.Time // zero: it answers
}

// note takes how a call ended, and says when the gateway goes and comes. An error that it returns ends the asking.
func (a *absence) note(err error) error {
	now := time.Now()
	switch {
	case err == nil && a.since.IsZero():
		return nil
	case err == nil:
		_, err = fmt.Fprintf(a.report, "the gateway answers again, after %s\n", span(now.Sub(a.since)))
		a.since = time.Time{}
		return err
	case !isAway(err):
		return err
	case a.since.IsZero():
		a.since, a.told = now, time.Time{}
	}
	left := a.limit - now.Sub(a.since)
	if left <= 0 {
		return fmt.Errorf("the gateway has been away for %s (--reconnect): %w", span(a.limit), err)
	}
	if now.Sub(a.told) < progressEvery {
		return nil
	}
	a.told = now
	_, err = fmt.Fprintf(a.report, "the gateway does not answer (%s); asking again for %s\n", awayWhy(err), span(left))
	return err
}

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
)

// jobsCommand is `holdfast jobs`.
func jobsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "jobs",
		Short: "Submit and follow durable asynchronous calls",
		Example: `  holdfast jobs submit --path /v1/chat/completions --workflow summaries --key doc-17 request.json
  holdfast jobs wait doc-17
  holdfast jobs list --lane background_retry`,
	}, jobsSubmitCommand(), jobsListCommand(), jobsShowCommand(), jobsWaitCommand(), jobsCancelCommand())
}

func jobsSubmitCommand() *cobra.Command {
	var in gateway.JobRequest
	var addr string
	var age time.Duration
	var asJSON, lines, wait bool
	var many submitMany
	then := follower{asJSON: &asJSON}
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit the request body in FILE (- is standard input) as a job; the same key again gives the same job",
		Long: `Submit the request body in FILE (- is standard input) as a job. The same key again gives the same job.

With --lines each line of FILE is a job: {"body": {…}, "path"?, "workflow"?, "idempotency_key"?, "owner_key"?, "priority"?,
"max_queue_age_ms"?, "callback_url"?}; what a line leaves out is as the flags say. A line without a key gets one made of all that it says, so that
the same command goes on with an interrupted upload and submits nothing twice.`,
		Example: `  holdfast jobs submit --path /v1/chat/completions request.json
  holdfast jobs submit --path /v1/messages --workflow summaries --key doc-17 --priority low --max-queue-age 1h request.json
  holdfast jobs submit --path /v1/chat/completions --workflow summaries --callback-url https://shop.example/done request.json
  holdfast jobs submit --lines --path /v1/chat/completions --workflow summaries jobs.jsonl
  echo '{"model":"gpt-5","messages":[]}' | holdfast jobs submit --path /v1/chat/completions --json -`,
		Args: oneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := submitFlags(cmd, &in, age, lines, wait, &then); err != nil {
				return err
			}
			in.MaxQueueAgeMS = age.Milliseconds()
			if lines {
				many.usual, many.asJSON = in, asJSON
				return many.run(cmd, addr, args[0])
			}
			switch body, err := readJobBody(cmd.InOrStdin(), args[0]); {
			case err != nil:
				return err
			case in.Path == "":
				return usagef("submit takes --path, the path of the call, such as /v1/chat/completions")
			case !json.Valid(body):
				return usagef("%s holds no JSON: a job's body is a JSON document", args[0])
			default:
				in.Body = body
			}
			api, err := dialAdmin(addr)
			if err != nil {
				return err
			}
			return submitOne(cmd, api, in, wait, &then)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Path, "path", "", "path of the call, such as /v1/chat/completions or /tools/billing/charges")
	f.StringVar(&in.Workflow, "workflow", "", "workflow (default: the first that matches)")
	f.StringVar(&in.IdempotencyKey, "key", "", "your own idempotency key (default: one is derived from the request)")
	f.StringVar(&in.OwnerKey, "owner", "", "owner key, for cost and capacity")
	f.StringVar(&in.Priority, "priority", "", "high, normal or low (default normal)")
	f.BoolVar(&lines, "lines", false, "each line of FILE is a job")
	f.IntVar(&many.connections, "connections", 8, "with --lines: how many are submitted at a time")
	f.DurationVar(&age, "max-queue-age", 0, "how long it may wait; can only shorten the policy's")
	f.StringVar(&in.CallbackURL, "callback-url", "", "address that the job's end is told to, signed by the workflow's callbacks.secret")
	f.BoolVar(&wait, "wait", false, "follow the job to its end, with the exit status of jobs wait")
	then.flags(cmd)
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

// submitFlags refuses what the flags of submit cannot mean.
func submitFlags(cmd *cobra.Command, in *gateway.JobRequest, age time.Duration, lines, wait bool, then *follower) error {
	switch key := cmd.Flags().Changed("key"); {
	case age < 0:
		return usagef("--max-queue-age is longer than %s", age)
	case in.Priority != "" && !slices.Contains(admin.Priorities, in.Priority):
		return usagef("--priority is one of %s, not %q", strings.Join(admin.Priorities, ", "), in.Priority)
	case key && lines:
		return usagef("--key is of one job: with --lines each line has its idempotency_key")
	case key && in.IdempotencyKey == "":
		return usagef("--key is empty; leave it out, and one is derived from the request")
	case lines && wait:
		return usagef("--wait is of one job: jobs list and jobs wait follow those of a file")
	case !wait && (cmd.Flags().Changed("timeout") || cmd.Flags().Changed("reconnect")):
		return usagef("--timeout and --reconnect are of --wait")
	}
	return then.check()
}

// submitOne submits a job and, with wait, follows it to its end.
func submitOne(cmd *cobra.Command, api *adminAPI, in gateway.JobRequest, wait bool, then *follower) error {
	ctx, stop := then.bound(cmd.Context())
	defer stop()
	var v admin.Intent
	if err := api.call(ctx, http.MethodPost, "/holdfast/v1/jobs", nil, in, &v); err != nil {
		if wait {
			return &noEnd{err}
		}
		return err
	}
	if wait {
		return then.follow(ctx, api, v, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return sayMoved(cmd.OutOrStdout(), &v, *then.asJSON)
}

// maxJobBody bounds what is read of a request.
const maxJobBody = 256 << 20

func readJobBody(in io.Reader, name string) (body []byte, err error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	body, err = io.ReadAll(io.LimitReader(in, maxJobBody+1))
	if len(body) > maxJobBody {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxJobBody)
	}
	return bytes.TrimSpace(body), err
}

func jobsListCommand() *cobra.Command {
	return parkedListCommand(&listOptions{jobs: true}, "List jobs, newest first; those that are not settled unless --all, --state or --outcome says otherwise",
		`  holdfast jobs list
  holdfast jobs list --lane background_retry --workflow summaries --json
  holdfast jobs list --outcome failed --newer-than 24h`)
}

func jobsShowCommand() *cobra.Command {
	return showCommand("Show a job with its history", `  holdfast jobs show 019ad3c8-5f0e
  holdfast jobs show doc-17 --json`)
}

// showCommand is `show` under a name that people look for it by.
func showCommand(short, example string) *cobra.Command {
	cmd := intentsShowCommand()
	cmd.Short, cmd.Example, cmd.Long = short, example, ""
	return cmd
}

// standing is where a job stands, in a few words.
func standing(v *admin.Intent) string {
	words := []string{v.State, v.Outcome}
	if v.State != "settled" && v.Lane != "" {
		words = append(words, v.Lane)
	}
	s := strings.Join(words, ", ")
	if v.Attempt > 0 {
		s += fmt.Sprintf("; %d of %d attempts", v.Attempt, v.MaxAttempts)
	}
	if v.LastErrorType != "" && v.Outcome != "success" {
		s += "; last error " + clean(v.LastErrorType, 40)
	}
	return s
}

// sayMoved prints a job as it now stands.
func sayMoved(out io.Writer, v *admin.Intent, asJSON bool) error {
	if asJSON {
		return writeJSON(out, v)
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", v.ID, standing(v))
	return err
}

func jobsCancelCommand() *cobra.Command {
	var addr, tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel KEY_OR_ID",
		Short: "Cancel a job that is not dispatched; its key is free then",
		Example: `  holdfast jobs cancel doc-17
  holdfast jobs cancel 019ad3c8-5f0e --json`,
		Args: oneArg("KEY_OR_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return moveJob(cmd, addr, args[0], tenant, asJSON, http.MethodDelete, "", nil)
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of a caller's own key (default any that was seen lately)")
	jsonFlag(cmd, &asJSON)
	adminFlags(cmd, &addr)
	return cmd
}

// moveJob finds a job and asks the API to move it.
func moveJob(cmd *cobra.Command, addr, name, tenant string, asJSON bool, method, verb string, in any) error {
	api, err := dialAdmin(addr)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	v, err := lookup(ctx, api, name, tenant)
	if err != nil {
		return err
	}
	path := "/holdfast/v1/jobs/" + url.PathEscape(v.ID)
	if verb != "" {
		path += "/" + verb
	}
	id := v.ID
	if err := api.call(ctx, method, path, nil, in, &v); err != nil {
		if errors.Is(err, errNoSuch) {
			return fmt.Errorf("%s is no job", id)
		}
		return fmt.Errorf("%s: %w", id, err)
	}
	return sayMoved(cmd.OutOrStdout(), &v, asJSON)
}

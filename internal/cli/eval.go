package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/eval"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// evalFlags are those of `holdfast eval`.
type evalFlags struct {
	file, config, workflow string
	tiers, upstreams       []string
	headers                []string
	usual                  eval.Usual
	repeat, concurrency    int
	maxCost                float64
	yes, dryRun            bool
	out                    string
	json, markdown         bool

	threshold       bool
	pairs, embedder string
	steps           eval.Thresholds
}

// evalCommand is `holdfast eval`.
func evalCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval --file PROMPTS | --threshold",
		Short: "Run a set of prompts through every tier of a workflow, side by side, or sweep the semantic cache's threshold",
		Long: `Send every line of a set to every tier of a workflow, and print the answers side by side: schema validity, length, cost,
latency, stop reason, errors; then a summary of each tier. Each call goes the way that it goes in production (prompt of the
tier, time-outs, retries, translation, credentials), by a gateway of the command's own with a log that is thrown away; but
no cache, no other tier and no earlier line answers in a tier's place.

A line is {"prompt": "…"} with system, schema and id as wanted, or a whole request, {"body": {…}}, with path, schema and
id. Answers are judged by the line's schema, else by the one that the request asks for.

It costs money. What it may cost is printed first; it goes on where somebody at the terminal says so, where --max-cost covers it, or
with --yes. --max-cost bounds the run, too: no call begins that may go beyond it.

With --threshold it asks at which similarity the semantic cache may answer: pairs of questions, {"a": "…", "b": "…", "same": true}, are
put to the cache's own embedder and guard, and for each threshold the right and the wrong hits are counted.

Status 1 means that a tier failed on every line, that calls were not made, or that no threshold finds what is right alone.`,
		Example: `  holdfast eval --file prompts.jsonl --config holdfast.yaml --workflow support_chat --max-cost 2
  holdfast eval --file prompts.jsonl --tiers pro,flash --repeat 3 --yes --out report.json
  holdfast eval --file prompts.jsonl --dry-run     # what it would cost
  holdfast eval --threshold --pairs pairs.jsonl --workflow support_chat`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (f *evalFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.file, "file", "", "JSON lines of prompts or requests; - is standard input")
	s.StringVar(&f.config, "config", "", "configuration or policy file; without it holdfast.yaml here, else the defaults")
	s.StringVar(&f.workflow, "workflow", "", "whose tiers; without it the only workflow that has some")
	s.StringSliceVar(&f.tiers, "tiers", nil, "only these tiers, by their names with commas between")
	s.StringArrayVar(&f.upstreams, "upstream", nil, "NAME=BASE_URL of a provider; may be repeated")
	s.StringVar(&f.usual.Path, "path", "", "API of lines that name none, e.g. /v1/messages; without it what the workflow's match takes")
	s.StringVar(&f.usual.Model, "model", "", "model that prompts ask for; without it that of the first tier")
	s.BoolVar(&f.usual.Stream, "stream", false, "prompts ask for a stream, so that the time to its first content is seen")
	s.StringArrayVarP(&f.headers, "header", "H", nil, "'Name: value' of every request, as a client sends it; may be repeated")
	s.IntVar(&f.repeat, "repeat", 1, "how often each line goes to each tier")
	s.IntVar(&f.concurrency, "concurrency", 4, "calls at once to each tier; never more than its bulkhead allows")
	s.Float64Var(&f.maxCost, "max-cost", 0, "USD; no call begins that may go beyond it")
	s.BoolVar(&f.yes, "yes", false, "do not ask, whatever it may cost")
	s.BoolVar(&f.dryRun, "dry-run", false, "check the set, say what it may cost, and send nothing")
	s.StringVar(&f.out, "out", "", "file for the whole report as JSON, answers in full")
	s.BoolVar(&f.json, "json", false, "print the whole report as JSON")
	s.BoolVar(&f.markdown, "markdown", false, "print tables of Markdown")
	s.BoolVar(&f.threshold, "threshold", false, "sweep the semantic cache's threshold over pairs of questions")
	s.StringVar(&f.pairs, "pairs", "", "with --threshold: JSON lines of pairs, - is standard input; without it some of our own")
	s.StringVar(&f.embedder, "embedder", "", "with --threshold: a name from embedders; without it that of the workflow, or the only one")
	s.Float64Var(&f.steps.From, "from", 0.80, "with --threshold: the first that is tried")
	s.Float64Var(&f.steps.To, "to", 0.99, "with --threshold: the last")
	s.Float64Var(&f.steps.Step, "step", 0.01, "with --threshold: from one to the next")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
}

// ofSet and ofSweep are flags that mean something in one of the two alone.
var (
	ofSet   = []string{"tiers", "path", "model", "stream", "header", "repeat", "concurrency"}
	ofSweep = []string{"pairs", "embedder", "from", "to", "step"}
)

// check refuses values that cannot be.
func (f *evalFlags) check(cmd *cobra.Command) error {
	if f.file != "" && f.threshold {
		return usagef("--file sends prompts to tiers, --threshold sweeps over pairs of questions: write one of the two; pairs of your own are --pairs")
	}
	foreign, needs := ofSweep, "--threshold"
	if f.threshold {
		foreign, needs = ofSet, "--file"
	}
	for _, name := range foreign {
		if cmd.Flags().Changed(name) {
			return usagef("--%s goes with %s", name, needs)
		}
	}
	switch {
	case f.file == "" && !f.threshold:
		return usagef("eval takes --file PROMPTS, JSON lines such as {\"prompt\": \"…\"}, or --threshold; see eval --help")
	case f.repeat < 1 || f.repeat > 1000:
		return usagef("--repeat is 1 to 1000")
	case f.concurrency < 1 || f.concurrency > 256:
		return usagef("--concurrency is 1 to 256")
	case cmd.Flags().Changed("max-cost") && !(f.maxCost > 0 && f.maxCost < 1e9):
		return usagef("--max-cost is an amount in USD above 0")
	}
	if f.out == "" {
		return nil
	}
	if dir, err := os.Stat(filepath.Dir(f.out)); err != nil || !dir.IsDir() {
		return usagef("--out: there is no folder %s", filepath.Dir(f.out))
	}
	return f.outIsNew(cmd)
}

// outIsNew refuses a report in the place of what it is made from: that would be lost.
func (f *evalFlags) outIsNew(cmd *cobra.Command) error {
	out, err := os.Stat(f.out)
	if err != nil || !out.Mode().IsRegular() {
		return nil
	}
	for _, name := range []string{f.file, f.pairs, cmp.Or(f.config, configHere)} {
		read, err := os.Stat(name)
		if in, ok := cmd.InOrStdin().(*os.File); name == "-" && ok {
			read, err = in.Stat()
		}
		if err == nil && os.SameFile(out, read) {
			return usagef("--out: %s is read by this command and would be overwritten; name another file", f.out)
		}
	}
	return nil
}

// load reads the configuration as serve would: what it lacks there keeps it from being run here.
func (f *evalFlags) load() (*policy.Config, error) {
	file := f.config
	if file == "" {
		if _, err := os.Stat(configHere); err == nil {
			file = configHere
		}
	}
	cfg, faults := policy.Default(os.LookupEnv), []policy.Fault(nil)
	if file != "" {
		if cfg, faults = policy.Load(file, os.LookupEnv); cfg == nil {
			return nil, refusedConfig(faults)
		}
	}
	if len(f.upstreams) > 0 {
		faults = cfg.Override(policy.Overrides{Upstreams: f.upstreams})
	}
	if policy.Unservable(faults) {
		return nil, refusedConfig(faults)
	}
	return cfg, nil
}

func refusedConfig(faults []policy.Fault) error {
	var lines strings.Builder
	for _, fault := range faults {
		if policy.Unservable([]policy.Fault{fault}) {
			lines.WriteString("\n" + fault.String())
		}
	}
	err := fmt.Errorf("the configuration is refused:%s", lines.String())
	if policy.InFlags(faults) {
		return &usageError{err}
	}
	return err
}

// plan reads what is to be sent.
func (f *evalFlags) plan(cmd *cobra.Command) (*eval.Plan, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	p, err := eval.NewPlan(cfg, f.workflow, f.tiers)
	if errors.Is(err, eval.ErrPlan) {
		return nil, &usageError{err}
	} else if err != nil {
		return nil, err
	}
	if p.Header, err = parseHeaders(f.headers); err != nil {
		return nil, err
	}
	for _, name := range []string{"Idempotency-Key", "Prefer", "Holdfast-Workflow"} {
		if p.Header.Get(name) != "" {
			return nil, usagef("-H %s would make the lines of a set one call, a job, or another workflow's; leave it out", name)
		}
	}
	err = lines(cmd, f.file, `--file is JSON lines such as {"prompt": "…"}`, func(name string, in io.Reader) (err error) {
		p.Requests, err = eval.ReadRequests(name, in, p, f.usual)
		return err
	})
	return p, err
}

// said is a set's name for people.
func said(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// lines opens a set, or takes standard input, for - .
func lines(cmd *cobra.Command, name, form string, read func(string, io.Reader) error) error {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return wanted(form, err)
		}
		defer func() { _ = file.Close() }() // read only
		in = file
	}
	if err := read(said(name), in); err != nil {
		return fmt.Errorf("nothing was sent:\n%w", err)
	}
	return nil
}

package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/signal"
)

// explainCommand is `holdfast explain`.
func explainCommand() *cobra.Command {
	var streams, signals string
	var ask question
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say what a policy makes of a request or of a provider's answer, and by which line; no traffic",
		Long: `Say what a policy makes of a request, or of what a provider answered: the signal, the decision, the delay, what it does
to the route and to the key, and the line of the policy that decided. Nothing is sent. With --admin a running gateway
answers, by the policy that it runs; else --config FILE, holdfast.yaml in the current folder, or the defaults.

--path, --model, --request and --request-header choose the workflow as a request would; --workflow names it. Without an
answer only the request is explained. An answer is --status with --header, --body and --phase, or none came: --transport
reset, refused, timeout, eof, dns, or the words of an error, with what of the request had been --sent.

--streams INDEX   instead: every SSE and JSON-array stream of an index.json, one line of JSON each: {"file", "events",
                  "first_visible_token_event_index", "ends", "terminal_marker", "finish_reason", "usage",
                  "tool_side_effect_started", "text", …}; streams of other formats are {"file", "unsupported": FORMAT}
--signals FILE    instead: every failure of a signals.jsonl: {"id", "signal"}; - is standard input

Of those two, an item that cannot be read is reported on standard error with its number; the others are still read, and
the exit status is 1. docs/signals.md describes the fields of a signal, docs/explain.md those of an explanation.`,
		Example: `  holdfast explain --workflow support_chat --status 429 --header 'Retry-After: 30'
  holdfast explain --provider anthropic --status 529 --body @overloaded.json --attempt 2 --remaining 20s
  holdfast explain --path /v1/responses --request @request.json --transport reset --sent all
  holdfast explain --signals signals.jsonl | jq -c 'select(.signal.outcome_known == false)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			out := bufio.NewWriter(cmd.OutOrStdout())
			defer func() { err = errors.Join(err, out.Flush()) }()
			switch {
			case streams != "":
				return provider.ExplainIndex(streams, func(line any) error { return writeJSON(out, line) })
			case signals != "":
				return explainSignals(out, cmd.ErrOrStderr(), cmd.InOrStdin(), signals)
			case ask.nothing():
				return usagef("explain takes an answer (--status, --transport), a request (--path, --request, --model), --workflow W, " +
					"--streams INDEX or --signals FILE; see holdfast explain --help")
			}
			return ask.explain(cmd.Context(), out, cmd.InOrStdin())
		},
	}
	cmd.Flags().StringVar(&streams, "streams", "", "index.json of recorded streams")
	cmd.Flags().StringVar(&signals, "signals", "", "signals.jsonl of recorded failures")
	ask.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("streams", "signals", "status", "transport")
	return cmd
}

// explained is one line of --signals.
type explained struct {
	ID     string        `json:"id"`
	Signal signal.Signal `json:"signal"`
}

// maxSignalLine bounds a line: a body of the largest size that is read, in base64, with its frame.
const maxSignalLine = 4 << 20

// explainSignals goes on after a bad line, so that one run shows every fault.
func explainSignals(out, report io.Writer, stdin io.Reader, file string) error {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return wanted("--signals takes lines of JSON, one recorded failure each (docs/signals.md)", err)
		}
		defer f.Close()
		from = f
	}
	bad := 0
	err := eachLine(from, maxSignalLine, func(n int, line []byte, err error) error {
		if err == nil {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				return nil
			}
			err = explainSignal(out, line)
		}
		if errors.Is(err, signal.ErrLine) || errors.Is(err, errLongLine) {
			bad++
			_, err = fmt.Fprintf(report, "%s:%d: %v\n", file, n, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if bad > 0 {
		return fmt.Errorf("explain: %s of %s could not be read; each line is one case", plural(bad, "line"), file)
	}
	return nil
}

func explainSignal(out io.Writer, line []byte) error {
	id, a, err := signal.ParseAnswer(line)
	if err != nil {
		return err
	}
	return writeJSON(out, explained{id, signal.Classify(a)})
}

var errLongLine = errors.New("the line is too long")

// eachLine hands f every line with its number, and errLongLine in place of one that is longer than max.
func eachLine(r io.Reader, max int, f func(n int, line []byte, err error) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	long := false
	for n := 1; ; {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > max; long {
			line = line[:0]
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		var fault error
		if long {
			fault = fmt.Errorf("%w: more than %s", errLongLine, size(int64(max)))
		}
		if e := f(n, line, fault); e != nil || err != nil {
			return e
		}
		line, long = line[:0], false
		n++
	}
}

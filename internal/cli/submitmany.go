package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/pause"
)

// submitMany submits a file of jobs, one in a line. A line has the fields of POST /holdfast/v1/jobs; those that it leaves
// out are the flags'.
type submitMany struct {
	usual       gateway.JobRequest
	connections int
	asJSON      bool

	mu       sync.Mutex
	results  []submitted
	known    int
	refused  int
	read     int64 // bytes of the file
	stopping error // why no further line is taken
	cut      int   // lines that were on their way when it was interrupted
	waiting  int   // lines that a gateway which is away keeps waiting
}

// submitted is what became of a line.
type submitted struct {
	Line    int    `json:"line"`
	ID      string `json:"id,omitempty"`
	Known   bool   `json:"known,omitempty"` // it was submitted before
	Refused string `json:"refused,omitempty"`
}

type jobLine struct {
	number int
	size   int
	text   []byte
}

// jobAnswer is a job, and whether it is one of before.
type jobAnswer struct {
	admin.Intent
	known bool
}

func (j *jobAnswer) headed(h http.Header) { j.known = h.Get("Idempotency-Replayed") == "true" }

// run submits every line. Each has a key, its own or one made of all that it says, so that a line that was submitted
// before is the job that it was: an interrupted upload is gone on with by the same command.
func (m *submitMany) run(cmd *cobra.Command, addr, name string) error {
	if m.connections < 1 || m.connections > 256 {
		return usagef("--connections is 1 to 256")
	}
	api, err := dialAdmin(addr)
	if err != nil {
		return err
	}
	in, size := io.NopCloser(cmd.InOrStdin()), int64(0)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	}
	defer func() { _ = in.Close() }() // read only
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	ended := follow(cmd.ErrOrStderr(), func() string { return m.bar(size) })
	err = m.submit(ctx, api, in)
	ended()
	return errors.Join(m.report(cmd.OutOrStdout()), err)
}

// submit hands the lines to so many submitters, and returns why it ended early.
func (m *submitMany) submit(ctx context.Context, api *adminAPI, in io.Reader) error {
	taking, stop := context.WithCancel(ctx)
	defer stop()
	lines, fed := make(chan jobLine), make(chan error, 1)
	var all sync.WaitGroup
	for range m.connections {
		all.Go(func() { m.take(ctx, taking, stop, api, lines) })
	}
	go func() { // not waited for where it is interrupted: a terminal from which it reads may say nothing more
		defer close(lines)
		fed <- m.feed(taking, in, lines)
	}()
	all.Wait()
	switch {
	case m.stopping != nil:
		return fmt.Errorf("%w; %s", m.stopping, goesOn)
	case ctx.Err() != nil && (m.cut > 0 || len(fed) == 0):
		return m.interrupted(context.Cause(ctx))
	}
	err := <-fed
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return m.interrupted(err)
	}
	return err
}

const goesOn = "the same command goes on, and submits nothing twice"

// interrupted says what was done by then.
func (m *submitMany) interrupted(cause error) error {
	said := fmt.Sprintf("%d submitted, %d of them before, %d refused", len(m.results)-m.refused, m.known, m.refused)
	if m.cut > 0 {
		said += fmt.Sprintf("; %d were on their way, and may be submitted too", m.cut)
	}
	return fmt.Errorf("%w: %s; %s", cause, said, goesOn)
}

// take submits lines until there are no more, or no more are taken.
func (m *submitMany) take(ctx, taking context.Context, stop func(), api *adminAPI, lines <-chan jobLine) {
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				return
			}
			if !m.one(ctx, api, l) {
				stop()
				return
			}
		case <-taking.Done():
			return
		}
	}
}

func (m *submitMany) feed(ctx context.Context, in io.Reader, lines chan<- jobLine) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		text, err := readLine(r)
		if len(text) > 0 || err == nil {
			l := jobLine{number: number, size: len(text) + 1, text: bytes.TrimSpace(text)}
			select {
			case lines <- l:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// readLine reads a line of at most maxJobBody bytes.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxJobBody:
			return nil, fmt.Errorf("it is longer than %d bytes", maxJobBody)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
}

// one submits a line, and reports whether there is use in another. What is refused holds up no other; an API that is away does.
func (m *submitMany) one(ctx context.Context, api *adminAPI, l jobLine) bool {
	result := submitted{Line: l.number}
	var stopping error
	if len(l.text) > 0 {
		in, err := m.parse(l.text)
		var v jobAnswer
		if err == nil {
			err = m.send(ctx, api, in, &v)
		}
		var refused *refusal
		var usage *usageError
		switch {
		case err == nil:
			result.ID, result.Known = v.ID, v.known
		case ctx.Err() != nil:
			m.mu.Lock()
			defer m.mu.Unlock()
			m.cut++
			return false
		case errors.As(err, &refused), errors.As(err, &usage):
			result.Refused = err.Error()
		default:
			stopping = fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read += int64(l.size); stopping != nil {
		m.stopping = stopping
		return false
	}
	if len(l.text) == 0 {
		return true
	}
	if result.Known {
		m.known++
	}
	if result.Refused != "" {
		m.refused++
	}
	m.results = append(m.results, result)
	return true
}

// parse reads a line over what the flags say, and gives it a key. Its key, whosever it is, is kept for a day at least.
func (m *submitMany) parse(text []byte) (gateway.JobRequest, error) {
	line := struct {
		gateway.JobRequest
		Key *string `json:"idempotency_key"` // which may be there and empty
	}{JobRequest: m.usual}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&line)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("something follows the object")
	}
	in := line.JobRequest
	in.Upload = false // it is one, and what a line says of it makes no other key
	switch {
	case err != nil:
		return in, usagef("it is no {body, path?, workflow?, idempotency_key?, owner_key?, priority?, max_queue_age_ms?, callback_url?}: %s", inLine(err))
	case in.Path == "":
		return in, usagef("it has no path, and there is no --path")
	case len(in.Body) == 0:
		return in, usagef("it has no body")
	case line.Key != nil && *line.Key == "":
		return in, usagef("its idempotency_key is empty; leave it out, and one is made of what the line says")
	case line.Key != nil:
		in.IdempotencyKey, in.Upload = *line.Key, true
		return in, nil
	}
	said, err := json.Marshal(in)
	if err != nil {
		return in, err
	}
	sum := sha256.Sum256(said)
	in.IdempotencyKey, in.Upload = "line-"+hex.EncodeToString(sum[:16]), true
	return in, nil
}

// sendTries is how often a line is sent that a gateway cannot take now, with waits that double from a second: half a minute, in which
// it may be started again.
const sendTries = 6

func (m *submitMany) send(ctx context.Context, api *adminAPI, in gateway.JobRequest, v *jobAnswer) (err error) {
	for try := range sendTries {
		err = api.call(ctx, http.MethodPost, "/holdfast/v1/jobs", nil, in, v)
		if !isAway(err) || try == sendTries-1 {
			return err
		}
		m.wait(ctx, time.Second<<try)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return err
}

// wait has a line wait for a gateway that is away, where progress shows it.
func (m *submitMany) wait(ctx context.Context, d time.Duration) {
	m.count(1)
	defer m.count(-1)
	pause.For(ctx, d)
}

func (m *submitMany) count(waiting int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting += waiting
}

const barWidth = 30

func (m *submitMany) bar(size int64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := fmt.Sprintf("%d submitted, %d of them before, %d refused", len(m.results)-m.refused, m.known, m.refused)
	if m.waiting > 0 {
		counts += "; waiting for the gateway"
	}
	if size <= 0 {
		return counts
	}
	full := int(min(m.read, size) * barWidth / size)
	return fmt.Sprintf("[%s%s] %3d %%  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), min(m.read, size)*100/size, counts)
}

// report says what became of the lines. Lines that were refused make an error of it.
func (m *submitMany) report(w io.Writer) error {
	if m.asJSON {
		if m.results == nil {
			m.results = []submitted{}
		}
		if err := writeJSON(w, m.results); err != nil {
			return err
		}
	} else {
		for _, r := range m.results {
			if r.Refused == "" {
				continue
			}
			if _, err := fmt.Fprintf(w, "line %d: refused: %s\n", r.Line, r.Refused); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "%d lines: %d submitted, %d of them before, %d refused\n", len(m.results), len(m.results)-m.refused, m.known, m.refused); err != nil {
			return err
		}
	}
	if m.refused > 0 {
		return fmt.Errorf("%d of %d lines were refused", m.refused, len(m.results))
	}
	return nil
}

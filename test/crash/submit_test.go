package crash

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// An upload of jobs that is killed, and one whose gateway is, is gone on with by the same command, and submits nothing
// twice: neither lines with keys of their own nor those without.
func TestSubmissionIsInterrupted(t *testing.T) {
	t.Parallel()
	const lines, distinct = 600, 550
	r := newRig(t)
	var file bytes.Buffer
	for i := range lines {
		key := ""
		if i%2 == 1 {
			key = fmt.Sprintf(`,"idempotency_key":"mine-%d"`, i%distinct)
		}
		fmt.Fprintf(&file, `{"body":{"model":"m","messages":[{"role":"user","content":"hello op=line-%d"}]}%s}`+"\n", i%distinct, key)
	}
	r.start("")
	r.pause() // so that no call dies with the gateway
	r.interrupt(file.Bytes(), 200, func(c *upload) { c.kill() })
	r.interrupt(file.Bytes(), 400, func(c *upload) {
		r.kill()
		if err := c.Wait(); err == nil || !strings.Contains(c.said.String(), "the same command goes on") {
			t.Errorf("its gateway died: %v\n%s", err, &c.said)
		}
	})
	r.start("")
	last := r.upload()
	if _, err := last.in.Write(file.Bytes()); err != nil {
		t.Fatal(err)
	}
	last.end()
	if err := last.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &last.said)
	}
	told := regexp.MustCompile(fmt.Sprintf(`(?m)^%d lines: %d submitted, (\d+) of them before, 0 refused$`, lines, lines)).FindStringSubmatch(last.said.String())
	if told == nil {
		t.Fatalf("it says\n%s", &last.said)
	}
	if n := r.known(); n != distinct {
		t.Errorf("%d jobs of %d different lines", n, distinct)
	}
	for _, job := range r.jobs() {
		r.awaitJob(job.ID, done)
	}
	for op, n := range r.Calls() {
		if n.Calls != 1 {
			t.Errorf("%s was sent %d times", op, n.Calls)
		}
	}
	t.Logf("of %d lines the last command found %s submitted before", lines, told[1])
	r.stop()
}

// interrupt uploads a file up to a line, and lets happen what happens once the gateway has taken most of that on.
func (r *rig) interrupt(file []byte, lines int, happens func(*upload)) {
	r.t.Helper()
	c := r.upload()
	part := bytes.Join(bytes.SplitAfterN(file, []byte("\n"), lines+1)[:lines], nil)
	go func() { _, _ = c.in.Write(part) }() // it may die of it
	for r.known() < lines*3/4 {
		<-time.After(2 * time.Millisecond)
	}
	happens(c)
	c.end()
}

// upload is `holdfast jobs submit --lines` with its input held open.
type upload struct {
	*exec.Cmd
	in   io.WriteCloser
	said bytes.Buffer
}

func (r *rig) upload() *upload {
	r.t.Helper()
	c := &upload{Cmd: exec.Command(binary, "jobs", "submit", "--lines", "--workflow", "jobs", "--path", "/v1/chat/completions", "--connections", "4",
		"--admin", r.gateway.Admin, "-")}
	c.Stdout, c.Stderr = &c.said, &c.said
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Process.Kill() }) // it has ended, if all is well
	return c
}

func (c *upload) kill() {
	_ = c.Process.Signal(os.Kill)
	_ = c.Wait() // of the kill
}

func (c *upload) end() { _ = c.in.Close() }

// jobs are those that the gateway has taken on.
func (r *rig) jobs() (all []jobView) {
	r.t.Helper()
	r.GetJSON(r.gateway.Admin+"/holdfast/v1/jobs?all=1&limit=1000", &all)
	return all
}

func (r *rig) known() int { return len(r.jobs()) }

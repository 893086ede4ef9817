package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// reference has another queue do the same jobs, and jobs that send nothing.
func (c QueueConfig) reference(ctx context.Context, dir string) (ref *Reference, err error) {
	sim, err := proc.Sim(proc.Command{Exe: c.Exe, Env: c.Env, Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sim.Stop(stopPatience)) }()
	ref, err = c.refer(ctx, dir, "-db", filepath.Join(dir, "reference.db"), "-url", sim.URL+"/v1/chat/completions")
	if err != nil {
		return nil, err
	}
	alone, err := c.refer(ctx, dir, "-db", filepath.Join(dir, "alone.db"))
	if err != nil {
		return nil, err
	}
	ref.Embedded = alone.Rate
	return ref, nil
}

// refer runs the other queue's program once.
func (c QueueConfig) refer(ctx context.Context, dir string, args ...string) (*Reference, error) {
	args = append(args, "-jobs", strconv.Itoa(c.Jobs), "-connections", strconv.Itoa(c.Connections))
	cmd := exec.CommandContext(ctx, c.Reference, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %.500s", c.Reference, err, said.String())
	}
	ref := &Reference{}
	if err := json.Unmarshal(out, ref); err != nil || ref.Submitted <= 0 || ref.Worked <= 0 {
		return nil, fmt.Errorf("%s printed no figures: %.200s", c.Reference, out)
	}
	return ref, nil
}

// text is what it did, for people, beside ours.
func (ref *Reference) text(r *QueueReport) string {
	row := func(what string, theirs, ours float64) string {
		return fmt.Sprintf("%s  %8.0f/s  (ours is %.2f times that)\n", what, theirs, ours/theirs)
	}
	s := row("submitted", ref.Submitted, r.Submitted) + row("worked   ", ref.Worked, r.Worked)
	if r.Embedded != nil {
		s += row("embedded ", ref.Embedded.Worked, r.Embedded.Worked)
	}
	return s
}

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Bounds of how a task is followed.
const (
	taskPollLeast = time.Second
	taskPollMost  = time.Minute
	taskLongest   = 24 * time.Hour // where the server names no ttl
	taskAskWait   = 30 * time.Second
)

// follow waits for a task's end: from what the client asks of it, from what the server says, and by asking.
func (f *flight) follow(id string, created json.RawMessage) {
	poll := clampMs(gjson.GetBytes(created, "task.pollInterval"), 5*time.Second, taskPollLeast, taskPollMost)
	limit := clampMs(gjson.GetBytes(created, "task.ttl"), taskLongest, taskPollLeast, taskLongest)
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case status := <-f.ended:
			f.taskEnded(id, status, created)
			return
		case got := <-f.final:
			f.taskSettled(&got, created)
			return
		case <-tick.C:
			if why := f.pollTask(id); why != nil {
				f.lose(verdict{kind: "connection_error", rule: "semantics 40", reason: fmt.Sprintf("it became task %.100q, which can no longer be asked for: %v", id, why)}, nil)
				return
			}
		case <-over.C:
			f.lose(verdict{kind: "timeout", rule: "semantics 40", reason: fmt.Sprintf("it became task %.100q, which did not end in time", id)}, nil)
			return
		case <-f.p.halted:
			f.interrupt()
			return
		}
	}
}

func clampMs(v gjson.Result, otherwise, least, most time.Duration) time.Duration {
	if v.Type != gjson.Number || v.Num <= 0 {
		return otherwise
	}
	if v.Num >= float64(most.Milliseconds()) {
		return most
	}
	return max(time.Duration(v.Num)*time.Millisecond, least)
}

// ownParams are params of a request of ours about a task.
func (f *flight) ownParams(id string) json.RawMessage {
	params, err := json.Marshal(map[string]string{"taskId": id})
	if err != nil { // text always marshals
		return nil
	}
	if meta := ownMeta(f.c.m); meta != nil {
		params, _ = sjson.SetRawBytes(params, "_meta", meta)
	}
	return params
}

// pollTask asks for the task's status. The error says that nobody can ask any more.
func (f *flight) pollTask(id string) error {
	f.mu.Lock()
	c := f.asked.conn
	f.mu.Unlock()
	f.c.s.mu.Lock()
	dead, closed := c.dead, f.c.s.closed
	f.c.s.mu.Unlock()
	if dead || closed {
		return errServerEnded
	}
	ctx, stop := context.WithTimeout(context.Background(), taskAskWait)
	defer stop()
	got, err := f.c.s.result(ctx, c, "tasks/get", f.ownParams(id))
	if err != nil {
		f.p.logger.Debug("a task cannot be asked for now", "intent", f.op.ID(), "error", err)
		return nil
	}
	f.c.s.taskStatus(got)
	return nil
}

// taskStatus takes a task's status from wherever it is named.
func (s *session) taskStatus(task json.RawMessage) {
	status := gjson.GetBytes(task, "status").Str
	if status != "completed" && status != "failed" && status != "cancelled" {
		return
	}
	s.mu.Lock()
	f := s.tasks[gjson.GetBytes(task, "taskId").Str]
	s.mu.Unlock()
	if f == nil {
		return
	}
	select {
	case f.ended <- status:
	default: // it is known
	}
}

// taskResult takes a task's result that the client has asked for.
func (s *session) taskResult(id string, got reply) {
	s.mu.Lock()
	f := s.tasks[id]
	s.mu.Unlock()
	if f == nil {
		return
	}
	select {
	case f.final <- got:
	default:
	}
}

// taskEnded asks for the result of a task that has ended. One that was cancelled may have acted before.
func (f *flight) taskEnded(id, status string, created json.RawMessage) {
	if status == "cancelled" {
		f.lose(verdict{kind: "task_cancelled", rule: "semantics 40", reason: fmt.Sprintf("it became task %.100q, which was cancelled", id)}, nil)
		return
	}
	f.mu.Lock()
	c := f.asked.conn
	f.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), taskAskWait)
	defer stop()
	got, err := f.c.s.ask(ctx, c, "tasks/result", f.ownParams(id))
	switch {
	case err != nil && status == "completed":
		f.taskSettled(nil, created)
	case err != nil:
		f.lose(verdict{kind: "task_failed", rule: "semantics 40", reason: fmt.Sprintf("it became task %.100q, which failed", id)}, nil)
	case got.msg.error != nil:
		f.taskVerdict(f.c.rule.judgeError(got.said().error, got.status), got.msg.error, created)
	default:
		f.taskSettled(&got, created)
	}
}

// taskSettled judges the result of a task. A nil one is of a task that says that it was completed.
func (f *flight) taskSettled(got *reply, created json.RawMessage) {
	if got == nil {
		f.taskVerdict(verdict{end: ledger.AttemptSuccess, reason: "the task was completed; its result could not be had"}, nil, created)
		return
	}
	f.taskVerdict(f.c.rule.judgeResult(got.said().result), got.msg.result, created)
}

// taskVerdict records a task's end. Who repeats the call gets the task, as the first one did.
func (f *flight) taskVerdict(v verdict, value, created json.RawMessage) {
	if value != nil {
		f.record(f.op.Evidence(intent.Ending{End: v.end, Error: v.kind, Reason: "the task's result"}, &ledger.Body{ContentType: "application/json", Data: value}))
	}
	switch v.end {
	case ledger.AttemptSuccess:
		f.attempted(v.end, v.kind)
		f.record(f.op.Settle(f.success(v, created), false, f.landed(created)))
	case ledger.AttemptFailed:
		f.attempted(v.end, v.kind)
		f.c.s.srv.history.remove(f.op.ID())
		f.record(f.op.Settle(intent.Settlement{Ending: v.ending(), Outcome: ledger.OutcomeFailed, Reason: v.reason, Visibility: ledger.VisComplete}, false, nil))
	default:
		f.lose(v, nil)
	}
}

package office

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// delivery is how long an event is on its way to the calendar.
const delivery = 600 * time.Millisecond

// planner keeps the calendar, the to-do lists and the progress of trainees.
type planner struct {
	mu       sync.Mutex
	now      func() time.Time
	events   []*event
	tasks    map[string][]*task
	progress map[string]int // lesson by "trainee/course"
}

type event struct {
	Title   string    `json:"title"`
	Start   string    `json:"start"`
	Minutes int       `json:"minutes"`
	visible time.Time // calendar_list shows it from then on
}

type task struct {
	Title string `json:"title"`
	Done  bool   `json:"done"`
}

func newPlanner(now func() time.Time) *planner {
	return &planner{
		now:    now,
		events: []*event{{Title: "Stocktaking", Start: "2026-12-01T08:00:00Z", Minutes: 240, visible: now()}},
		tasks: map[string][]*task{
			"office": {{Title: "Water the plants"}, {Title: "Order toner"}, {Title: "Renew parking permit"}, {Title: "Call the landlord"}},
			"sales":  {{Title: "Call Bo Lind"}, {Title: "Send samples"}, {Title: "Update price list"}},
		},
		progress: map[string]int{"ana/safety": 2},
	}
}

func (*planner) name() string { return "planner" }

func (p *planner) snapshot() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return frozen(map[string]any{"events": p.events, "tasks": p.tasks, "progress": p.progress})
}

type eventCreate struct {
	Title   string `json:"title" jsonschema:"What it is" len:"120" example:"Review with Bo"`
	Start   string `json:"start" jsonschema:"Start in RFC 3339" format:"date-time" example:"2026-12-03T09:30:00Z"`
	Minutes int    `json:"minutes" jsonschema:"How long it takes" min:"5" max:"1440" example:"45"`
}

type todoComplete struct {
	List     string `json:"list" jsonschema:"Which list" enum:"office|sales"`
	Position int    `json:"position" jsonschema:"Place among the open tasks, counted from 1" min:"1" max:"50" example:"1"`
}

type todoQuery struct {
	List string `json:"list" jsonschema:"Which list" enum:"office|sales"`
}

type progressMark struct {
	Trainee string `json:"trainee" jsonschema:"Who learns" pattern:"^[a-z]+$" len:"40" example:"bo"`
	Course  string `json:"course" jsonschema:"Which course" enum:"safety|sales|tools"`
	Lesson  int    `json:"lesson" jsonschema:"Last lesson finished; an earlier one changes nothing" min:"1" max:"40" example:"3"`
}

type accepted struct {
	Accepted bool `json:"accepted"`
}

type completed struct {
	List     string `json:"list"`
	Position int    `json:"position"`
}

type eventList struct {
	Events []event `json:"events"`
}

type todoList struct {
	Open []string `json:"open" jsonschema:"Titles in order"`
	Done []string `json:"done" jsonschema:"Titles in order"`
}

type progressList struct {
	Lessons map[string]int `json:"lessons" jsonschema:"Last lesson by trainee/course"`
}

func (p *planner) register(m *mcp.Server) {
	addTool(m, describe[eventCreate]("calendar_event_create", "Create event", "Put an event into the shared calendar.", adds), p.createEvent)
	addTool(m, describe[todoComplete]("todo_complete", "Complete task", "Mark a task of a list as done.", puts), p.complete)
	addTool(m, describe[progressMark]("progress_mark", "Mark progress", "Note the last lesson that a trainee has finished.", puts), p.mark)
	addTool(m, describe[none]("calendar_list", "List events", "The events of the shared calendar.", reads), p.listEvents)
	addTool(m, describe[todoQuery]("todo_list", "List tasks", "The tasks of a list.", reads), p.listTasks)
	addTool(m, describe[none]("progress_list", "List progress", "The last lesson of each trainee and course.", reads), p.listProgress)
}

// createEvent is at fault, and for a while nothing of it is to be seen.
func (p *planner) createEvent(_ context.Context, in eventCreate) (accepted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, &event{in.Title, in.Start, in.Minutes, p.now().Add(delivery)})
	return accepted{true}, nil
}

// complete is at fault: once a task is done, its position is the next one's.
func (p *planner) complete(_ context.Context, in todoComplete) (completed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := 0
	for _, t := range p.tasks[in.List] {
		if t.Done {
			continue
		}
		if at++; at == in.Position {
			t.Done = true
			return completed(in), nil
		}
	}
	return completed{}, fmt.Errorf("list %q has no open task at position %d; todo_list shows them", in.List, in.Position)
}

func (p *planner) mark(_ context.Context, in progressMark) (progressMark, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := in.Trainee + "/" + in.Course
	p.progress[key] = max(p.progress[key], in.Lesson)
	in.Lesson = p.progress[key]
	return in, nil
}

func (p *planner) listEvents(context.Context, none) (eventList, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := eventList{Events: []event{}}
	for _, e := range p.events {
		if !e.visible.After(p.now()) {
			out.Events = append(out.Events, *e)
		}
	}
	return out, nil
}

func (p *planner) listTasks(_ context.Context, in todoQuery) (todoList, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := todoList{Open: []string{}, Done: []string{}}
	for _, t := range p.tasks[in.List] {
		if t.Done {
			out.Done = append(out.Done, t.Title)
		} else {
			out.Open = append(out.Open, t.Title)
		}
	}
	return out, nil
}

func (p *planner) listProgress(context.Context, none) (progressList, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return progressList{maps.Clone(p.progress)}, nil
}

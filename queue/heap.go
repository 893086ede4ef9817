package queue

import "container/heap"

// ranked is a heap whose members know their place in it, so that each of them can be moved and taken out. place points to
// what is 0 of a member that is in none.
type ranked[T any] struct {
	list  []T
	less  func(a, b T) bool
	place func(T) *int
}

func (r *ranked[T]) Len() int           { return len(r.list) }
func (r *ranked[T]) Less(i, j int) bool { return r.less(r.list[i], r.list[j]) }
func (r *ranked[T]) Swap(i, j int) {
	r.list[i], r.list[j] = r.list[j], r.list[i]
	*r.place(r.list[i]), *r.place(r.list[j]) = i+1, j+1
}

func (r *ranked[T]) Push(x any) {
	r.list = append(r.list, x.(T))
	*r.place(r.list[len(r.list)-1]) = len(r.list)
}

func (r *ranked[T]) Pop() any {
	last := len(r.list) - 1
	x := r.list[last]
	*r.place(x) = 0
	clear(r.list[last:])
	r.list = r.list[:last]
	return x
}

func (r *ranked[T]) empty() bool { return len(r.list) == 0 }

// first is the member that goes next. There is one.
func (r *ranked[T]) first() T { return r.list[0] }

func (r *ranked[T]) add(x T)    { heap.Push(r, x) }
func (r *ranked[T]) remove(x T) { heap.Remove(r, *r.place(x)-1) }
func (r *ranked[T]) moved(x T)  { heap.Fix(r, *r.place(x)-1) }

// alarm is a moment at which something of the schedule changes by itself: a line has a job whose time comes, a way opens, or a job has
// its last call.
type alarm struct {
	at   int64 // microseconds
	line *line
	way  *way
	job  *entry
	pos  int
}

// set puts an alarm at a moment, in the place of its last one.
func (q *Queue) set(a *alarm, at int64) {
	if a.at = at; a.pos > 0 {
		q.alarms.moved(a)
		return
	}
	q.alarms.add(a)
}

func (q *Queue) unset(a *alarm) {
	if a.pos > 0 {
		q.alarms.remove(a)
	}
}

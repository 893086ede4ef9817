package queue

// Bound has a queue know no more than most jobs.
func (q *Queue) Bound(most int) { q.most = most }

package intent

// Patient makes every later move of o wait for its commit however long the store takes: nobody waits for a job, and a
// dispatch given up after CommitWait would be taken for never sent (semantics 9) and the job with it. It returns o.
func (o *Op) Patient() *Op {
	o.patient = true
	return o
}

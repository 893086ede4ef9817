package policy

// ForFunction returns the workflow as it applies to a call that is a function of the caller's own: nothing is known
// of what it does, so that an effect that was not written is external, and so are the defaults that follow from it.
// Nil when there is no such workflow; an empty name means the default one.
func (c *Config) ForFunction(name string) *Workflow {
	if name == "" {
		name = DefaultWorkflow
	}
	w := c.Workflow(name)
	if w == nil || w.Effect != ByPath {
		return w
	}
	path := w.Path()
	written := func(field string) bool { return c.Written(path + "." + field) }
	f := *w
	f.Effect = External
	if !written("idempotency.derive") {
		f.Idempotency.Derive = ""
	}
	f.Idempotency.resolve(External, written)
	if !written("durability") {
		f.Durability = durability(External)
	}
	return &f
}

// ValidName reports whether s can name a tenant (semantics 46).
func ValidName(s string) bool { return nameForm.MatchString(s) }

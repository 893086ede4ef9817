package canon

// A Rule says what of a value does not count. A nil Rule, and the zero one, leave everything as it is.
type Rule struct {
	// Drop leaves the member out.
	Drop bool
	// Others leaves out the members that Members does not name; an object with none left, or a value
	// that is no object, is left out itself.
	Others bool
	// Text marks a text, whose white space at both ends does not count: a string, or the parts of one (objects
	// with a member "text"), where only the beginning of the first part and the end of the last are ends.
	Text bool
	// Roles makes the texts of an object depend on its member "role", which must be one of these; "" is an
	// object without one. Nil asks nothing.
	Roles []string
	// Members has the rules of an object's members.
	Members []Member
	// Each is the rule of an array's elements.
	Each *Rule
}

// Member is the rule for one member. The name is ASCII without quote or backslash.
type Member struct {
	Name string
	Rule *Rule
}

// Get returns the rule for the member name, which it creates if there is none.
func (r *Rule) Get(name string) *Rule {
	for _, m := range r.Members {
		if m.Name == name {
			return m.Rule
		}
	}
	sub := &Rule{}
	r.Members = append(r.Members, Member{name, sub})
	return sub
}

func (r *Rule) each() *Rule {
	if r == nil {
		return nil
	}
	return r.Each
}

// member returns the rule for a member and whether the member is left out whatever its value.
func (r *Rule) member(name []byte) (sub *Rule, drop bool) {
	for i := range r.Members {
		if r.Members[i].Name == string(name) {
			return r.Members[i].Rule, r.Members[i].Rule.Drop
		}
	}
	return nil, r.Others
}

func (r *Rule) others() bool { return r != nil && r.Others }

// emptied tells that nothing is left of a value written by a rule with Others.
func emptied(value []byte) bool { return value[0] != '{' || len(value) == 2 }

func (r *Rule) trims() bool {
	if r != nil {
		for i := range r.Members {
			if r.Members[i].Rule.Text {
				return true
			}
		}
	}
	return false
}

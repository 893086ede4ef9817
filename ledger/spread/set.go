package spread

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Each store has a name of its own, and keeps a note of the set that its keys belong to: the names of all its stores, the one whose secrets are
// the set's first. In another set the same key would belong to another store, and what is claimed in this one would be done again.
const (
	nameSecret = "store-name" // what a store's name is made of
	nameBytes  = 8
	noteName   = "spread"
)

// SetError says that stores are not the set that they were before.
type SetError struct{ Why string }

func (e *SetError) Error() string { return "spread: " + e.Why }

var errNoNotes = errors.New("spread: this kind of store keeps no notes")

// nameOf is a store's own name, made once.
func nameOf(ctx context.Context, s ledger.Ledger) (string, error) {
	secret, err := s.Secret(ctx, nameSecret)
	if err != nil {
		return "", fmt.Errorf("read the store's name: %w", err)
	}
	return hex.EncodeToString(secret[:nameBytes]), nil
}

// note is a compare-and-set on what a store knows of its set.
func note(ctx context.Context, s ledger.Ledger, was, value string) (string, error) {
	n, ok := s.(ledger.Noter)
	if !ok {
		return "", errNoNotes
	}
	now, err := n.Note(ctx, noteName, was, value)
	if err != nil {
		return "", fmt.Errorf("read which set the store belongs to: %w", err)
	}
	return now, nil
}

// settle has stores belong together: they do already, or they are empty. It returns their names in their order, and that of the first.
func settle(ctx context.Context, stores []ledger.Ledger) (names []string, anchor string, err error) {
	if len(stores) == 0 {
		return nil, "", errors.New("spread: no stores")
	}
	if names, err = namesOf(ctx, stores); err != nil {
		return nil, "", err
	}
	notes := make([]string, len(stores))
	set := ""
	for i, s := range stores {
		if notes[i], err = note(ctx, s, "", ""); err != nil {
			return nil, "", err
		}
		if set == "" {
			set = notes[i]
		}
	}
	if set == "" {
		set = text(names, slices.Min(names))
	}
	for i, s := range stores { // nothing is noted anywhere before all of them fit
		if err := fits(ctx, s, i, notes[i], set, names); err != nil {
			return nil, "", err
		}
	}
	for i, s := range stores {
		now, err := note(ctx, s, notes[i], set)
		if err != nil {
			return nil, "", err
		}
		if now != set {
			return nil, "", other(i, now, names)
		}
	}
	return names, strings.Fields(set)[0], nil
}

func namesOf(ctx context.Context, stores []ledger.Ledger) ([]string, error) {
	names := make([]string, len(stores))
	for i, s := range stores {
		name, err := nameOf(ctx, s)
		if err != nil {
			return nil, err
		}
		if at := slices.Index(names[:i], name); at >= 0 {
			return nil, &SetError{fmt.Sprintf("stores %d and %d of the list are the same database, or one is a copy of the other; give each address once, "+
				"and begin with databases that are empty", at+1, i+1)}
		}
		names[i] = name
	}
	return names, nil
}

// text is a set as it is noted.
func text(names []string, anchor string) string {
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == anchor })
	slices.Sort(rest)
	return strings.Join(append([]string{anchor}, rest...), " ")
}

// fits says whether one store of the list, with what it has noted, belongs to the set or may.
func fits(ctx context.Context, s ledger.Ledger, i int, noted, set string, names []string) error {
	if noted == "" {
		held, err := s.List(ctx, ledger.Filter{Limit: 1})
		if err != nil {
			return fmt.Errorf("see whether the store is empty: %w", err)
		}
		if len(held) > 0 {
			return &SetError{fmt.Sprintf("store %d of the list holds operations of its own, and a set begins with empty databases: what is claimed there would be "+
				"looked for elsewhere, and done again; give the set a new database in its place", i+1)}
		}
		noted = set
	}
	if noted != set || !same(strings.Fields(set), names) {
		return other(i, noted, names)
	}
	return nil
}

// same says that two lists have the same names.
func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func other(i int, noted string, names []string) error {
	was := len(strings.Fields(noted))
	if was == 1 && len(names) > 1 {
		return &SetError{fmt.Sprintf("store %d of the list has served by itself, and a set begins with empty databases: what is claimed there would be looked for elsewhere, "+
			"and done again; give the set a new database in its place", i+1)}
	}
	return &SetError{fmt.Sprintf("store %d of the list belongs to a set of %d (%s), and the list names %d (%s): which store a key belongs to follows from the set, "+
		"so what is claimed would be looked for elsewhere, and done again; list the databases that were listed before, in any order", i+1, was, noted, len(names), text(names, slices.Min(names)))}
}

// Alone refuses a store that belongs to a set, where it is opened by itself.
func Alone(ctx context.Context, s ledger.Ledger) error {
	name, err := nameOf(ctx, s)
	if err != nil {
		return err
	}
	noted, err := note(ctx, s, "", name)
	if err != nil {
		return err
	}
	if noted != name {
		return &SetError{fmt.Sprintf("this database is one of %d that operations are spread over (%s), and store: names it alone: what is claimed in the others would "+
			"be done again; list all of them under store:", len(strings.Fields(noted)), noted)}
	}
	return nil
}

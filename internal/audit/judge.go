package audit

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// pair is a call and its repeat with the same arguments: the states around them, and both answers.
type pair struct {
	probe         string
	args          Args
	s0, s1, s2    state // before, between, after
	first, second answer
	d1, d2        []change
	reader        bool // the tool is named like a read
	related       bool // the repeat's effect is where the first call's is, and those of calls before
}

const maxEvidence = 4 // changes shown of each call

func itoa(n int) string { return strconv.Itoa(n) }

// evidence are changes in words, the first few; those that a general read shows come first.
func evidence(title string, changes []change) []string {
	var out []string
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b change) int { return strings.Count(a.source, "{") - strings.Count(b.source, "{") })
	for i, c := range changes {
		if i == maxEvidence {
			out = append(out, title+": … "+itoa(len(changes)-i)+" more")
			break
		}
		out = append(out, title+": "+c.String())
	}
	return out
}

func (p pair) answers() []string {
	return []string{"first answer: " + p.first.says(), "second answer: " + p.second.says()}
}

func (p pair) finding(v Verdict, says string, more ...string) Finding {
	return Finding{Probe: p.probe, Verdict: v, Says: says, Evidence: append(more, p.answers()...), Args: p.args}
}

// judge says what a repeat did. The state decides first; answers are compared where it stayed as it was.
func (a *auditor) judge(p pair) Finding {
	p.d1, p.d2 = a.changes(p.s0, p.s1), a.changes(p.s1, p.s2)
	effects := slices.Concat(evidence("first call", p.d1), evidence("repeat", p.d2))
	switch {
	case len(p.d2) > 0 && len(p.d1) == 0 && !p.first.wrong() && p.probe != Unhurried && p.probe != LateRepeat:
		return p.finding(CannotTell, "an effect came later than it was waited for", effects...)
	case len(p.d2) > 0 && len(p.d1) > 0 && p.touchedAnother():
		return p.finding(WrongRecord, "the repeat changed a record that the first call had left alone", effects...)
	case len(p.d2) > 0 && len(a.changes(p.s0, p.s2)) == 0 && len(p.d1) > 0:
		f := p.finding(DuplicateEffect, "the repeat undid what the first call did", effects...)
		f.undone = true
		return f
	case len(p.d2) > 0 && p.first.wrong() && len(p.d1) > 0:
		return p.finding(DuplicateEffect, "the first call answered an error although its effect took place, and the repeat had its effect again", effects...)
	case len(p.d2) > 0 && p.first.wrong():
		return p.finding(CannotTell, "the first call failed, and the second did the work", effects...)
	case len(p.d2) > 0:
		return p.finding(DuplicateEffect, "the repeat had an effect of its own", effects...)
	}
	if id := p.ownRecord(); id != "" && !p.namesAnother() {
		return p.finding(DuplicateEffect, "the repeat was answered with a record of its own, "+id+", which can be read", effects...)
	}
	return p.judgeAnswers(a, effects)
}

// ownRecord is the name of a record which only the second answer gives, and by which a read finds something. Where no
// read lists records, this is how a second one shows.
func (p pair) ownRecord() string {
	if p.first.wrong() || p.second.wrong() {
		return ""
	}
	first, second := identities(p.first.value), identities(p.second.value)
	for path, ids := range second {
		for _, id := range ids {
			if len(first[path]) == 0 || slices.Contains(first[path], id) {
				continue
			}
			for source, v := range p.s2.values {
				if strings.Contains(source, "{") && strings.Contains(source, `"`+id+`"`) && !p.s2.failed[source] && v != nil {
					return id
				}
			}
		}
	}
	return ""
}

func (p pair) judgeAnswers(a *auditor, effects []string) Finding {
	seen := len(p.d1) > 0
	switch {
	case p.first.wrong() && !seen:
		return p.finding(CannotTell, "the first call was answered with an error: "+p.first.says()+"; give arguments that work with --args", effects...)
	case p.first.wrong() && p.second.wrong():
		return p.finding(ErrorOnRepeat, "the effect took place once, and both calls were answered with an error", effects...)
	case p.second.silent:
		return p.finding(ErrorOnRepeat, "the repeat got no answer", effects...)
	case p.second.wrong():
		return p.finding(ErrorOnRepeat, "the repeat was answered with an error although the first call had succeeded", effects...)
	case same(p.first, p.second):
	case p.namesAnother():
		return p.finding(WrongRecord, "the repeat had no effect and was answered with another record", effects...)
	case p.first.wrong():
		return p.finding(AnswerDiffers, "the first call answered an error although its effect took place; the repeat had none, and answered well", effects...)
	case !seen:
		return p.finding(AnswerDiffers, "no read shows an effect, and the two answers do not say the same", effects...)
	default:
		return p.finding(AnswerDiffers, "one effect, and two answers that do not say the same", effects...)
	}
	switch {
	case seen:
		return p.finding(Safe, "the repeat changed nothing, and was answered as the first call", effects...)
	case p.reader:
		return p.finding(Safe, "it changed nothing that can be read, and is named like a read", effects...)
	}
	return p.finding(CannotTell, unseen(len(p.s2.values)), effects...)
}

// touchedAnother reports whether the repeat changed a record that was there before the first call, which that call had
// not touched.
func (p pair) touchedAnother() bool {
	for _, c := range p.d2 {
		record, ok := standing(p.s0, c)
		if !ok {
			continue
		}
		if !slices.ContainsFunc(p.d1, func(d change) bool { return d.source == c.source && slices.Contains(d.chain, record) }) {
			return true
		}
	}
	return false
}

// standing is the innermost record around a change that was there before.
func standing(s state, c change) (string, bool) {
	v := s.values[c.source]
	for _, record := range slices.Backward(c.chain) {
		if contains(v, record) {
			return record, true
		}
	}
	return "", false
}

// contains reports whether a record of that identity is in v.
func contains(v any, identity string) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k == identity {
				return true
			}
			if contains(e, identity) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if contains(e, identity) || text(e) == identity {
				return true
			}
		}
	default:
		s, ok := scalar(v)
		return ok && s == identity
	}
	return false
}

// namesAnother reports whether the second answer names a record which is neither the first's nor one of the arguments,
// and was there before.
func (p pair) namesAnother() bool {
	first, second := identities(p.first.value), identities(p.second.value)
	for path, ids := range second {
		for _, id := range ids {
			if len(first[path]) == 0 || slices.Contains(first[path], id) || contains(map[string]any(p.args), id) {
				continue
			}
			for source, v := range p.s0.values {
				if !p.s0.failed[source] && contains(v, id) {
					return true
				}
			}
		}
	}
	return false
}

// tally is what calls amounted to, without numbers that were set to one of the arguments: how far those moved says
// what stood there before.
func (a *auditor) tally(from, to state, args ...Args) map[string]float64 {
	given := map[string]bool{}
	for _, set := range args {
		walk(map[string]any(set), "", func(_, _ string, leaf any) { given[text(leaf)] = true })
	}
	return amount(slices.DeleteFunc(a.changes(from, to), func(c change) bool {
		return number(c.before) != nil && number(c.after) != nil && given[text(c.after)]
	}))
}

// beyond is the class in which more happened than once, and by how much.
func beyond(got, once map[string]float64) (class string, times float64) {
	for _, k := range sortedKeys(once) {
		if ratio := got[k] / once[k]; once[k] != 0 && !math.IsInf(ratio, 0) && ratio > max(times, 1.4) {
			class, times = k, ratio
		}
	}
	return class, times
}

// shortOf is the class in which less happened than did when the calls came one by one.
func shortOf(got, want map[string]float64) (class string) {
	for _, k := range sortedKeys(want) {
		kind := k[len(k)-1]
		if kind != '+' && kind != '-' && kind != '#' || want[k] == 0 {
			continue
		}
		if got[k]/want[k] < 0.9 {
			return k
		}
	}
	return ""
}

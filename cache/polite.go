package cache

import (
	"slices"
	"strings"
)

// aboutWords says that a text is about words, or gives some to be worked on.
func (r *reading) aboutWords(text string) bool {
	follows := r.lines
	for i := range r.tokens {
		follows = follows || r.tokens[i].text == ":"
	}
	for i := range r.tokens {
		t := strings.TrimSuffix(r.at(i), exact)
		switch {
		case r.tokens[i].kind != word, t == "mot" && r.at(i+1) == "de": // mot de passe
		case wording[t], follows && working[t]:
			return true
		}
	}
	return containsAny(text, wordingSigns)
}

// aboutNow says that what a text asks changes with the clock.
func (r *reading) aboutNow(text string) bool {
	for i := range r.tokens {
		if nowWords[r.at(i)] || nowWhich[r.at(i)] && nowUnits[strings.TrimSuffix(strings.ToLower(r.at(i+1)), exact)] {
			return true
		}
	}
	return containsAny(text, nowSigns)
}

func containsAny(text string, signs []string) bool {
	return slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(text, s) })
}

// phrase is the words of one.
type phrase []string

// splitAll makes phrases of texts.
func splitAll(texts ...string) (out []phrase) {
	for _, t := range texts {
		out = append(out, strings.Fields(t))
	}
	return out
}

// Phrases of politeness, longest first where one begins another.
var (
	greetings = splitAll("hi there", "hello there", "good morning", "good afternoon", "good evening", "hi", "hello", "hey", "guten tag", "guten morgen",
		"hallo", "bonjour", "bonsoir", "salut", "hola", "buenos días", "buenas tardes", "ciao", "buongiorno", "olá", "bom dia", "こ ん に ち は", "す み ま せ ん", "你 好", "您 好")
	pleas = splitAll("please", "kindly", "bitte", "s'il vous plaît", "s'il vous plait", "s'il te plaît", "s'il te plait", "por favor", "per favore",
		"per piacere", "alsjeblieft", "alstublieft", "请 问", "請 問")
	thanks = splitAll("thank you very much", "thank you so much", "thank you in advance", "thank you", "thanks in advance", "thanks a lot", "many thanks", "thanks",
		"vielen dank", "danke", "merci beaucoup", "merci d'avance", "merci", "muchas gracias", "gracias", "grazie", "obrigado", "obrigada", "dank je",
		"谢 谢", "謝 謝", "あ り が と う ご ざ い ま す", "あ り が と う")
	// requests are ways to ask to be told: the question stands behind them.
	requests = splitAll("can you please", "could you please", "would you please", "will you please", "can you kindly", "could you kindly")
	// inquiries may stand before a question as it would stand alone.
	inquiries = splitAll("i would like to know", "i want to know", "tell me")
	// … and of which the request is the verb that follows.
	mayI    = splitAll("can you", "could you", "would you")
	howToDo = splitAll("how can i", "how could i", "how to")
	doing   = phrase{"how", "do", "i"}
	// softened are the endings of Japanese requests behind て and で.
	softened = splitAll("く だ さ い", "下 さ い")
)

// told are verbs of answering: "can you explain" asks for no ability.
var told = set(`explain summarize tell recommend suggest`)

// given are verbs of what is done for somebody, who stands behind them.
var given = set(`give show help send write teach find get`)

// questionWords begin a question in which the words that follow keep their order.
var questionWords = set(`what who whom whose which when where why how`)

// asking are words that begin a question or a request, so that no mark at the end adds anything.
var asking = set(`what who whom whose which when where why how is are am was were do does did can could should would will shall may might must has
	have had explain describe tell list give show write name define compare summarize suggest recommend create
	was wer wie wo wann warum welche welcher welches welchen wieso weshalb wozu wem wen woher wohin ist sind kann können soll sollte
	que qu'est-ce qui quoi quand où comment pourquoi quel quelle quels quelles combien est-ce
	qué quién quiénes cómo cuándo dónde cuál cuáles cuánto cuánta cuántos cuántas
	che chi cosa come quando dove perché quale quali quanto quanti o quem onde qual quais
	wat wie waar wanneer waarom hoe welke hoeveel 请 什 谁 哪 为 怎 几`)

// askingSigns stand in questions of scripts without spaces.
var askingSigns = set(`か 吗 嗎 呢 谁 誰 哪 何 几 幾 怎 么 麼`)

// polite takes greetings, pleas and thanks off both ends, as long as something is left.
func (r *reading) polite() {
	for r.politeStart() || r.politeEnd() {
	}
}

// politeStart takes one phrase off the beginning.
func (r *reading) politeStart() bool {
	for _, p := range greetings {
		if n, ok := r.says(0, p); ok && r.pause(n) {
			return r.drop(0, n+1)
		}
	}
	for _, list := range [...][]phrase{pleas, requests} {
		for _, p := range list {
			if n, ok := r.says(0, p); ok && (n < len(r.tokens) && r.tokens[n].kind != mark || r.at(n) == ",") && r.at(n) != r.at(n-1) {
				if r.at(n) == "," {
					n++
				}
				return r.drop(0, n)
			}
		}
	}
	for _, p := range mayI {
		if n, ok := r.says(0, p); ok && (told[r.at(n)] || given[r.at(n)] && r.at(n+1) == "me") {
			return r.drop(0, n)
		}
	}
	for _, p := range inquiries {
		if n, ok := r.says(0, p); ok && questionWords[r.at(n)] {
			return r.drop(0, n)
		}
	}
	return false
}

// politeEnd takes one phrase off the end, with the mark before it.
func (r *reading) politeEnd() bool {
	end := len(r.tokens)
	for end > 0 && (r.at(end-1) == "." || r.at(end-1) == "!" || r.at(end-1) == "?") {
		end--
	}
	for i, list := range [...][]phrase{thanks, pleas} {
		for _, p := range list {
			if _, ok := r.says(end-len(p), p); ok && end-len(p) >= 2 {
				return r.politeTail(end-len(p), len(p), i == 1)
			}
		}
	}
	for _, p := range softened {
		from := end - len(p)
		if _, ok := r.says(from, p); ok && from > 2 && (r.at(from-1) == "て" || r.at(from-1) == "で") {
			return r.drop(from, len(p))
		}
	}
	return false
}

// politeTail takes out the n tokens of a plea, or of thanks, before the marks at the end. Thanks that nothing parts from the rest may be
// what is asked about.
func (r *reading) politeTail(from, n int, plea bool) bool {
	switch before := r.tokens[from-1]; {
	case before.text == "," && r.composes():
		return false
	case before.text == ",":
		from, n = from-1, n+1
	case before.text == "." || before.text == "?" || before.text == "!" || strings.HasPrefix(before.text, "\n"):
		return r.drop(from, len(r.tokens)-from)
	case before.kind != word && before.kind != number || !plea:
		return false
	}
	return r.drop(from, n)
}

// composes says that a text asks for a text.
func (r *reading) composes() bool {
	return slices.ContainsFunc(r.tokens, func(t token) bool { return composing[t.text] })
}

// pause says that a mark or the end of a line parts a greeting from what follows.
func (r *reading) pause(i int) bool {
	t := r.at(i)
	return i+1 < len(r.tokens) && (t == "," || t == "." || t == "!" || strings.HasPrefix(t, "\n"))
}

// drop cuts if anything that says something is left.
func (r *reading) drop(i, n int) bool {
	for k := range r.tokens {
		if (k < i || k >= i+n) && r.tokens[k].kind != mark {
			r.cut(i, n)
			return true
		}
	}
	return false
}

// front writes the ways to ask how something is done in one, and puts what it is done with behind it.
func (r *reading) front() {
	for _, p := range howToDo {
		if n, ok := r.says(0, p); ok && r.instructs(n) {
			r.tokens = slices.Concat([]token{{text: "how"}, {text: "do"}, {text: "i"}}, r.tokens[n:])
		}
	}
	if !fronted[r.at(0)] {
		return
	}
	for i := 2; i <= 4; i++ {
		if n, ok := r.says(i+1, doing); ok && r.at(i) == "," && r.instructs(i+1+n) {
			end := len(r.tokens)
			for r.tokens[end-1].kind == mark {
				end--
			}
			r.tokens = slices.Concat(r.tokens[i+1:end], r.tokens[:i], r.tokens[end:])
			return
		}
	}
}

// instructs says that what is done begins at i: a verb, and none of a title's.
func (r *reading) instructs(i int) bool {
	return i+1 < len(r.tokens) && r.tokens[i].kind == word && !r.tokens[i].capital && !states[r.at(i)]
}

// between sorts the two that a text's last words compare, unless they are numbers, of which one is taken from the other.
func (r *reading) between() {
	k := len(r.tokens)
	if k > 4 && r.tokens[k-3].kind == word && r.tokens[k-1].kind == word && symmetric[r.at(k-5)] && r.at(k-4) == "between" && r.at(k-2) == "and" && r.at(k-3) > r.at(k-1) {
		r.tokens[k-3], r.tokens[k-1] = r.tokens[k-1], r.tokens[k-3]
	}
}

// fronted are the prepositions of what something is done with.
var fronted = set(`in on using with`)

// states are verbs of what somebody is: "how do I look" asks for no instruction.
var states = set(`look feel seem sound appear know compare rank fit do help be differ rate not`)

// plurals writes some nouns in their singular, where nothing makes their number count and the text asks what is so.
func (r *reading) plurals() {
	if !r.english || !questionWords[r.at(0)] {
		return
	}
	for i := 1; i < len(r.tokens); i++ {
		t := &r.tokens[i]
		if t.kind != word || t.capital || determiners[r.at(i-1)] || r.tokens[i-1].kind != word {
			continue
		}
		for _, ending := range [...]string{"s", "es"} {
			if one, ok := strings.CutSuffix(t.text, ending); ok && safePlurals[one] {
				t.text = one
			}
		}
		if one, ok := strings.CutSuffix(t.text, "ies"); ok && safePlurals[one+"y"] {
			t.text = one + "y"
		}
	}
}

// articles takes English articles out where they tell nothing apart: not before names, which are words otherwise, not before the last
// word ("what is the matrix"), not as letters ("vitamin a").
func (r *reading) articles() {
	if !r.english {
		return
	}
	out := r.tokens[:0:0]
	for i, t := range r.tokens {
		next := strings.TrimSuffix(strings.ToLower(r.at(i+1)), exact)
		plain := i+2 < len(r.tokens) && r.tokens[i+1].kind == word && !t.capital && !names[next] && !beings[next] && !counted[next] && !afterArticle[next]
		switch {
		case t.kind != word || !plain:
		case t.text == "the" && !questionWords[next]:
			continue
		case (t.text == "a" || t.text == "an") && beforeArticle[r.at(i-1)]:
			continue
		}
		out = append(out, t)
	}
	r.tokens = out
}

// counted are words that are others with an article before them: a few and few, the most and most, A minor.
var counted = set(`few little lot number hundred thousand million billion dozen couple bit good great minor major flat sharp most least best
	worst same other one first second third last next only rich poor dead living sick unemployed old young more less
	many whole half quarter very`)

// beforeArticle are words behind which "a" is an article and no letter.
var beforeArticle = set(`is are was were be make write create build draw generate bake cook sort find use using get need want have has had in of for
	with as by on from into like give buy sell open close delete remove add send install set run start stop become reset cancel book order
	return change update what such not do and or to i you tell explain describe suggest recommend plan design choose`)

// end takes off the marks at the end that say nothing: a full stop; an exclamation behind a word; a question's mark where its
// first word already asks.
func (r *reading) end() {
	for k := len(r.tokens) - 1; k > 0; k-- {
		t, before := r.tokens[k], r.tokens[k-1]
		switch {
		case t.kind != mark:
			return
		case t.text == ".", t.text == ",":
		case t.text == "!" && before.kind == word && !strings.HasSuffix(before.text, exact):
		case t.text == "?" && r.isQuestion():
		default:
			return
		}
		r.tokens = r.tokens[:k]
	}
}

// isQuestion says that the last sentence, or its last clause, asks by its first word.
func (r *reading) isQuestion() bool {
	sentence, clause := 0, 0
	for i := range len(r.tokens) - 1 {
		switch t := r.at(i); {
		case t == ".", t == "!", t == "?", strings.HasPrefix(t, "\n"):
			sentence, clause = i+1, i+1
		case t == ",", t == ":":
			clause = i + 1
		}
	}
	for _, first := range [...]int{sentence, clause} {
		if asking[strings.TrimSuffix(r.at(first), exact)] {
			return true
		}
	}
	return r.asks || slices.ContainsFunc(r.tokens[sentence:], func(t token) bool { return askingSigns[t.text] })
}

package policy

import (
	"errors"
	"strings"
	"testing"
)

// TestNoDocument holds that what would have read a document is neither true nor false without one, by either reading.
func TestNoDocument(t *testing.T) {
	_, fault := Document([]byte("<html>"))
	for src, reads := range map[string]bool{
		`(body?.charged ?? false) == false`: true, `body == nil`: true, `result != nil`: true, `status == 200 or body == nil`: true,
		`let b = body; b == nil`: true, `status == 200`: false, `headers["x"] == "y"`: false, `1 in [1]`: false,
	} {
		e, err := CompileExpr(src)
		if err != nil {
			t.Fatal(err)
		}
		a := Answer{Status: 200, Headers: map[string]string{"x": "y"}, Fault: fault}
		for name, read := range map[string]func(Answer) (bool, error){"Match": e.Match, "Decide": e.Decide, "Conditions.Match": Conditions{Exprs: []Expr{e}}.Match} {
			if is, err := read(a); is == reads || errors.Is(err, ErrDocument) != reads {
				t.Errorf("%s of %s: %t, %v", name, src, is, err)
			}
		}
	}
	for _, src := range []string{`$env.body == nil`, `$env["body"] == nil`, `len($env) > 0`, `let e = $env; e.status == 200`, `Fault == nil`} {
		if _, err := CompileExpr(src); err == nil {
			t.Errorf("%s is accepted", src)
		}
	}
}

// TestDecide holds that an expression over evidence tells "no" from "this is not what I was written for".
func TestDecide(t *testing.T) {
	const yes, no, cannot = "yes", "no", "cannot"
	for _, c := range []struct{ src, body, want string }{
		{`len(body.items) > 0`, `{"items":[1]}`, yes},
		{`len(body.items) > 0`, `{"items":[]}`, no},
		{`len(body.items) > 0`, `{"items":""}`, cannot},
		{`len(body.items) > 0`, `{"items":"x"}`, cannot},
		{`len(body.items) > 0`, `{"items":{}}`, cannot},
		{`len(body.items) > 0`, `{"items":null}`, cannot},
		{`len(body.items) > 0`, `{"error":"try later"}`, cannot},
		{`len(body.items) > 0`, `[]`, cannot},
		{`len(body.items) > 0`, `"items"`, cannot},
		{`len(body.items) > 0`, `null`, cannot},
		{`len(keys(body.items)) > 0`, `{"items":{}}`, no},
		{`len(keys(body.items)) > 0`, `{"items":[]}`, cannot},
		{`body.count > 0`, `{"count":1}`, yes},
		{`body.count > 0`, `{"count":0}`, no},
		{`body.count > 0`, `{"count":0.0}`, no},
		{`body.count > 0`, `{"count":"0"}`, cannot},
		{`body.count > 0`, `{"count":"1"}`, cannot},
		{`body.count > 0`, `{"count":null}`, cannot},
		{`body.count > 0`, `{"count":true}`, cannot},
		{`body.count > 0`, `{"count":[]}`, cannot},
		{`body.count != 0`, `{"count":"0"}`, cannot},
		{`body.count == 1`, `{"count":"1"}`, cannot},
		{`body.count == 1`, `{"count":1.0}`, yes},
		{`body.n == 9007199254740993`, `{"n":9007199254740992}`, no},
		{`body.n == 9007199254740993`, `{"n":9007199254740993}`, yes},
		{`body.found`, `{"found":true}`, yes},
		{`body.found`, `{"found":false}`, no},
		{`body.found`, `{"found":"false"}`, cannot},
		{`body.found`, `{"found":1}`, cannot},
		{`body.found`, `{"found":null}`, cannot},
		{`body.found`, `{}`, cannot},
		{`body.found == true`, `{"found":"true"}`, cannot},
		{`not body.missing`, `{}`, cannot},
		{`not body.missing`, `{"missing":"yes"}`, cannot},
		{`body.state == "paid"`, `{"state":"paid"}`, yes},
		{`body.state == "paid"`, `{"state":"new"}`, no},
		{`body.state == "paid"`, `{"stat":"new"}`, cannot},
		{`body.state != "cancelled"`, `{"error":"x"}`, cannot},
		{`body.id != nil`, `{"id":7}`, yes},
		{`body.id != nil`, `{"id":null}`, no},
		{`body.id != nil`, `{"error":"x"}`, cannot},
		{`(body.state ?? "none") == "paid"`, `{}`, no},
		{`(body?.state ?? "none") == "paid"`, `null`, no},
		{`body.state == "paid" or body.count > 0`, `{"state":"paid"}`, yes},
		{`body.state == "paid" or body.count > 0`, `{"state":"new"}`, cannot},
		{`any(body.items, .id == "x")`, `{"items":[{"id":"y"},{"id":"x"}]}`, yes},
		{`any(body.items, .id == "x")`, `{"items":[{"id":"y"}]}`, no},
		{`any(body.items, .id == "x")`, `{"items":[{"id":5}]}`, cannot},
		{`any(body.items, .id == "x")`, `{"items":[{}]}`, cannot},
		{`any(body.items, .id == "x")`, `{"items":["x"]}`, cannot},
		{`any(body.items, .id == "x")`, `{"items":""}`, cannot},
		{`any(body.items, .id == "x")`, `{"items":{}}`, cannot},
		{`all(body.items, .id == "x")`, `{"items":""}`, cannot},
		{`body.items | filter(.n > 1) | len() > 0`, `{"items":[{"n":2}]}`, yes},
		{`body.items | filter(.n > 1) | len() > 0`, `{"items":[{"n":"2"}]}`, cannot},
		{`"x" in body.ids`, `{"ids":["y"]}`, no},
		{`"x" in body.ids`, `{"ids":["x"]}`, yes},
		{`"5" in body.ids`, `{"ids":[5]}`, cannot},
		{`"x" in body.ids`, `{"ids":"xyz"}`, cannot},
		{`"x" in body.ids`, `{"ids":null}`, cannot},
		{`"x" in body.ids`, `{"ids":{"x":1}}`, yes},
		{`"x" in body.ids`, `{"ids":{}}`, no},
		{`body.note contains "x"`, `{"note":"axb"}`, yes},
		{`body.note contains "x"`, `{"note":"b"}`, no},
		{`body.note contains "x"`, `{"note":null}`, cannot},
		{`body.note matches "^x"`, `{"note":["x"]}`, cannot},
		{`upper(body.note) == "X"`, `{"note":"x"}`, yes},
		{`upper(body.note) == "X"`, `{"note":1}`, cannot},
		{`body.items[0].n > 0`, `{"items":[{"n":1}]}`, yes},
		{`body.items[0].n > 0`, `{"items":[]}`, cannot},
		{`body.items[0].n > 0`, `{"items":"x"}`, cannot},
		{`body[0] == "x"`, `"x"`, cannot},
		{`headers["x-state"] == "done"`, `{}`, yes},
		{`headers["x-other"] == "done"`, `{}`, cannot},
		{`status in [200, 201]`, `{}`, yes},
		{`status in 300..399`, `{}`, no},
		{`status == 200 and len(fromJSON(body.text).a) > 0`, `{"text":"{\"a\":[1]}"}`, yes},
		{`len(fromJSON(body.text).a) > 0`, `{"text":"{\"a\":[1],\"a\":[]}"}`, cannot},
		{`len(fromJSON(body.text).a) > 0`, `{"text":7}`, cannot},
		{`let n = body.n; n > 1`, `{"n":2}`, yes},
		{`body.a == body.b`, `{"a":{"x":1},"b":{"x":1}}`, yes},
		{`body.n > 1 ? body.a == "x" : body.b == "x"`, `{"n":2,"a":"x"}`, yes},
	} {
		e, err := CompileExpr(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		doc, err := Document([]byte(c.body))
		if err != nil {
			t.Fatal(c.body, err)
		}
		is, err := e.Decide(Answer{Status: 200, Body: doc, Result: doc, Headers: map[string]string{"x-state": "done"}})
		got := map[bool]string{true: yes, false: no}[is]
		if err != nil {
			got = cannot
		}
		if got != c.want {
			t.Errorf("%s of %s: %s (%v), want %s", c.src, c.body, got, err, c.want)
		}
	}
}

// The reason is written into the history: it says which place of the expression, and holds no value of the answer.
func TestDecideSaysWhy(t *testing.T) {
	for src, want := range map[string]string{
		`len(body.items) > 0`:          "body.items is text where a list is expected",
		`body.count > 0`:               "body.count > 0 compares text with a number",
		`any(body.list, .id == "x")`:   `.id == "x" compares a number with text`,
		`body.none.more == 1`:          "body.none is not there",
		`body.items.deep == 1`:         "body.items.deep is looked for in text",
		`body.list[7].id == 1`:         "body.list[7] is not there",
		`body.count in body.count`:     "body.count in body.count looks for text in text",
		`upper(body.list) == "hidden"`: "body.list is a list where text is expected",
	} {
		e, err := CompileExpr(src)
		if err != nil {
			t.Fatal(err)
		}
		doc, _ := Document([]byte(`{"items":"hidden-a","count":"hidden-b","list":[{"id":5}]}`))
		_, err = e.Decide(Answer{Body: doc})
		if !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden-") {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestDocument(t *testing.T) {
	for _, text := range []string{``, ` `, `{"count":1,"count":0}`, `{"a":{"b":1,"\u0062":2}}`, `[{"x":1,"x":1}]`, `{} {}`, `{"a":1}x`, `{"a":`, `[1,]`, `nul`,
		"\"\xff\"", `123456789012345678901234567890`, `1e400`, `<html>`, strings.Repeat("[", 200) + strings.Repeat("]", 200), "\ufeff{}"} {
		if v, err := Document([]byte(text)); !errors.Is(err, ErrDocument) {
			t.Errorf("%.40q is read as %v (%v)", text, v, err)
		}
	}
	for _, text := range []string{`null`, `{}`, ` [1, 2.5, "a", true] `, `{"a":{"x":1},"b":{"x":1}}`, `-9223372036854775808`, `0.1`} {
		if _, err := Document([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzDocument(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":2}`, `[1.5,{}]`, `"x"`, `{"n":1e99}`, "\xff"} {
		f.Add([]byte(s))
	}
	e, err := CompileExpr(`any(body.items, .id == "x") or body.n > 1 or "a" in body.list`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := Document(text)
		if (err != nil) != (errors.Is(err, ErrDocument)) || err != nil && doc != nil {
			t.Fatal(doc, err)
		}
		_, _ = e.Decide(Answer{Body: doc})
	})
}

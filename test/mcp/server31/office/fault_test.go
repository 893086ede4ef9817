package office_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// in runs a test with the back door open and with time that passes only while all wait.
func in(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(openAll(t)) })
}

// count is how often a text stands in what all records say.
func (r *rig) count(text string) int {
	r.t.Helper()
	return strings.Count(r.state(), text)
}

func (r *rig) wantCount(text string, want int) {
	r.t.Helper()
	if got := r.count(text); got != want {
		r.t.Errorf("%q is there %d times, want %d", text, got, want)
	}
}

// twice calls a tool with what expected.json tries it with, and then again.
func (r *rig) twice(tool string) (first, second answer) {
	r.t.Helper()
	args := expected(r.t)[tool].Arguments
	return r.call(tool, args), r.call(tool, args)
}

// TestDuplicatesAreRecords says what there is twice, where TestVerdicts says that something is other.
func TestDuplicatesAreRecords(t *testing.T) {
	for tool, want := range map[string]struct {
		text  string
		times int
	}{
		"order_create":           {`"order_id":"ord_100`, 4},
		"ticket_open":            {"Printer on floor 2", 2},
		"note_append":            {"Dana starts on Monday.", 2},
		"calendar_event_create":  {"Review with Bo", 2},
		"inventory_set_quantity": {`"chair-ash":62`, 1},
		"dns_record_add":         {"192.0.2.10", 2},
		"newsletter_subscribe":   {"Welcome to offers", 2},
		"document_fetch":         {`"document_id":"doc_2"`, 2},
		"loyalty_add_stamps":     {`"card_100":2`, 1},
		"feature_flag_toggle":    {`"new-checkout":false`, 1},
		"todo_complete":          {`"done":true`, 2},
		"sms_send":               {"Your order is ready.", 2},
		"payment_charge":         {`"charge_id"`, 1},
		"invoice_issue":          {`"number"`, 1},
		"chat_message_post":      {"The samples have arrived.", 1},
		"transfer_create":        {`"transfer_id"`, 1},
		"event_track":            {`"event_id":"ev-20"`, 1},
	} {
		t.Run(tool, func(t *testing.T) {
			in(t, func(r *rig) {
				r.twice(tool)
				r.wantCount(want.text, want.times)
			})
		})
	}
}

func TestKeyIsForgottenAfter200Milliseconds(t *testing.T) {
	in(t, func(r *rig) {
		args := expected(t)["payment_charge"].Arguments
		first := r.work("payment_charge", args)
		time.Sleep(199 * time.Millisecond)
		if got := r.work("payment_charge", args); got != first {
			t.Errorf("within the time: %s, want %s", got, first)
		}
		time.Sleep(time.Millisecond)
		if got := r.work("payment_charge", args); got == first {
			t.Error("after the time the first charge is returned")
		}
		r.wantCount(`"charge_id"`, 2)
	})
}

func TestUpsertOverwritesTheOldestContact(t *testing.T) {
	in(t, func(r *rig) {
		args := expected(t)["crm_contact_upsert"].Arguments
		r.work("crm_contact_upsert", args)
		if state := r.state(); strings.Count(state, "dana@fox.example") != 1 || strings.Count(state, "con_") != 4 {
			t.Fatalf("one call does not add one contact: %s", state)
		}
		r.work("crm_contact_upsert", args)
		var all struct {
			Contacts []map[string]string `json:"contacts"`
		}
		if err := json.Unmarshal([]byte(r.state()), &all); err != nil {
			t.Fatal(err)
		}
		last := all.Contacts[len(all.Contacts)-1]
		if len(all.Contacts) != 4 || last["contact_id"] != "con_1" || last["name"] != "Dana Fox" {
			t.Errorf("the oldest of %d contacts is %v", len(all.Contacts), last)
		}
	})
}

func TestEffectsAreLate(t *testing.T) {
	for tool, delay := range map[string]time.Duration{"calendar_event_create": 600 * time.Millisecond, "object_put": 400 * time.Millisecond} {
		t.Run(tool, func(t *testing.T) {
			in(t, func(r *rig) {
				e := expected(t)[tool]
				before := r.look(e.Observe)
				r.work(tool, e.Arguments)
				time.Sleep(delay - time.Millisecond)
				if r.look(e.Observe) != before {
					t.Errorf("visible before %v", delay)
				}
				time.Sleep(time.Millisecond)
				if r.look(e.Observe) == before {
					t.Errorf("not visible after %v", delay)
				}
			})
		})
	}
}

func TestFirstPageHidesNewTickets(t *testing.T) {
	in(t, func(r *rig) {
		first := r.work("ticket_list", nil)
		r.twice("ticket_open")
		if r.work("ticket_list", nil) != first {
			t.Error("the first page has changed")
		}
		if second := r.work("ticket_list", map[string]any{"cursor": "10"}); strings.Count(second, "Printer on floor 2") != 2 {
			t.Errorf("the second page: %s", second)
		}
	})
}

// TestOneOfTwoAtOnceIsLost calls with two sets of arguments and finds one of them.
func TestOneOfTwoAtOnceIsLost(t *testing.T) {
	for tool, texts := range map[string][2]string{
		"channel_add_member": {"dana", "eva"},
		"note_append":        {"Dana starts on Monday.", "Eva is back."},
	} {
		t.Run(tool, func(t *testing.T) {
			in(t, func(r *rig) {
				e := expected(t)[tool]
				for _, a := range both(r, tool, e.Arguments, e.Other) {
					if a.Failed || a.Text == "" {
						t.Errorf("an answer: %+v", a)
					}
				}
				state := r.state()
				if strings.Contains(state, texts[0]) == strings.Contains(state, texts[1]) {
					t.Errorf("want one of %q: %s", texts, state)
				}
			})
			in(t, func(r *rig) {
				e := expected(t)[tool]
				r.work(tool, e.Arguments)
				r.work(tool, e.Other)
				if state := r.state(); !strings.Contains(state, texts[0]) || !strings.Contains(state, texts[1]) {
					t.Errorf("in sequence too, one is lost: %s", state)
				}
			})
		})
	}
}

func TestFileIsGoneAfterTwoSavesAtOnce(t *testing.T) {
	in(t, func(r *rig) {
		e := expected(t)["file_save"]
		for _, a := range both(r, "file_save", e.Arguments, e.Arguments) {
			if a.Failed || a.Text == "" {
				t.Errorf("an answer: %+v", a)
			}
		}
		r.wantCount("/contracts/lease.txt", 0)
	})
}

func TestFailureHasTakenEffect(t *testing.T) {
	in(t, func(r *rig) {
		a := r.call("dns_record_add", expected(t)["dns_record_add"].Arguments)
		if !a.Failed || !strings.Contains(a.Text, "was not added") {
			t.Errorf("the answer: %+v", a)
		}
		r.wantCount("192.0.2.10", 1)
	})
}

func TestRepeatsFailThoughAllIsDone(t *testing.T) {
	for tool, text := range map[string]string{"folder_create": "already exists", "crm_contact_delete": "no contact"} {
		t.Run(tool, func(t *testing.T) {
			in(t, func(r *rig) {
				first, second := r.twice(tool)
				if first.Failed || !second.Failed || !strings.Contains(second.Text, text) {
					t.Errorf("%+v, then %+v", first, second)
				}
			})
		})
	}
}

func TestFullCardHidesStamps(t *testing.T) {
	in(t, func(r *rig) {
		args := map[string]any{"card_id": "card_090", "stamps": 1}
		r.work("loyalty_add_stamps", args)
		one := r.state()
		r.work("loyalty_add_stamps", args)
		if r.state() != one {
			t.Error("a full card takes more stamps")
		}
	})
}

func TestKeysThatHoldRefuseOtherArguments(t *testing.T) {
	for tool, other := range map[string][2]string{"transfer_create": {"to", "payroll"}, "shipment_create": {"carrier", "ups"}} {
		t.Run(tool, func(t *testing.T) {
			in(t, func(r *rig) {
				args := expected(t)[tool].Arguments
				r.work(tool, args)
				args[other[0]] = other[1]
				if a := r.call(tool, args); !a.Failed {
					t.Errorf("the key was taken for other arguments: %s", a.Text)
				}
			})
		})
	}
}

func TestLesserLessonChangesNothing(t *testing.T) {
	in(t, func(r *rig) {
		r.work("progress_mark", map[string]any{"trainee": "ana", "course": "safety", "lesson": 1})
		r.wantCount(`"ana/safety":2`, 1)
	})
}

// TestHintsLie holds that the tools that claim too much are those that are at fault, and that some that claim nothing
// are safe: hints decide no verdict.
func TestHintsLie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := map[string]string{}
		for _, tool := range openAll(t).tools() {
			switch a := tool.Annotations; {
			case a == nil:
				claims[tool.Name] = "nothing"
			case a.ReadOnlyHint:
				claims[tool.Name] = "reads"
			case a.IdempotentHint:
				claims[tool.Name] = "idempotent"
			default:
				claims[tool.Name] = "not idempotent"
			}
		}
		for tool, want := range map[string]string{
			"document_fetch": "reads", "inventory_set_quantity": "idempotent", "note_append": "idempotent",
			"payment_charge": "idempotent", "newsletter_subscribe": "idempotent", "todo_complete": "idempotent",
			"transfer_create": "not idempotent", "shipment_create": "not idempotent", "order_cancel": "nothing",
		} {
			if claims[tool] != want {
				t.Errorf("%s claims %q, want %q", tool, claims[tool], want)
			}
		}
	})
}

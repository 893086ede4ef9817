package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/ledger"
)

const postgresConfig = `
env: test
workflows:
  refunds: {match: {paths: ["/x"]}, effect: external, reconcile: {sql: "SELECT id, amount, at, note FROM charges WHERE ref = $1", dsn: "DSN", happened: "len(result) > 0 && result[0].amount > 1"}}
  sneaky: {match: {paths: ["/s"]}, effect: external, reconcile: {sql: "SELECT spend($1)", dsn: "DSN", happened: "len(result) > 0"}}
  slow: {match: {paths: ["/t"]}, effect: external, reconcile: {sql: "SELECT count(*) AS n FROM locked", dsn: "DSN", happened: "result[0].n > 0"}}
  all: {match: {paths: ["/a"]}, effect: external, reconcile: {sql: "SELECT * FROM charges", dsn: "DSN", happened: "len(result) > 0"}}
  wide: {match: {paths: ["/w"]}, effect: external, reconcile: {sql: "SELECT repeat('x', 2000000) AS x WHERE $1 <> ''", dsn: "DSN", happened: "len(result) > 0"}}
  wrong: {match: {paths: ["/v"]}, effect: external, reconcile: {sql: "SELECT nothing FROM nowhere", dsn: "DSN", happened: "len(result) > 0"}}
  stranger: {match: {paths: ["/y"]}, effect: external, reconcile: {sql: "SELECT id FROM charges", dsn: "STRANGER", happened: "len(result) > 0"}}
  nobody: {match: {paths: ["/z"]}, effect: external, reconcile: {sql: "SELECT id FROM charges", dsn: "postgres://reader:hidden-word@127.0.0.1:1/db?sslmode=disable", happened: "len(result) > 0"}}
mcp:
  servers:
    orders:
      url: FAR/mcp
      tools:
        create: {key: "{customer_id}", reconcile: {sql: "SELECT id FROM orders WHERE customer = $1 AND item = $2", arguments: {customer: "{customer_id}", item: "{item.id}"}, dsn: "DSN", happened: "len(result) > 0"}}
`

// TestPostgres reads a real server: what it shows, what bounds it, and that neither data nor secrets get out of it.
func TestPostgres(t *testing.T) {
	pg := pgtest.Start(t)
	pg.Exec(t, "postgres", `CREATE TABLE charges(id serial PRIMARY KEY, ref text, amount int, at timestamptz DEFAULT now(), note text)`,
		`CREATE TABLE orders(id serial PRIMARY KEY, customer bigint, item text)`, `CREATE TABLE locked(id int)`, `CREATE TABLE spent(ref text)`,
		`CREATE FUNCTION spend(text) RETURNS int LANGUAGE sql VOLATILE AS $$ INSERT INTO spent VALUES ($1); SELECT 1 $$`,
		`INSERT INTO locked VALUES (1)`)
	stranger := pg.As("stranger", "hidden-word", "postgres")
	r := newRig(t, strings.NewReplacer("DSN", pg.DSN("postgres"), "STRANGER", stranger).Replace(postgresConfig))
	secret, err := r.store.Secret(t.Context(), "hmac")
	if err != nil {
		t.Fatal(err)
	}
	lose := func(workflow string) *ledger.Record {
		return r.lose(ledger.Intent{Workflow: workflow, Provider: "openai", Method: "POST", Path: "/x"}, "", nil)
	}
	insert := func(rec *ledger.Record, n int) {
		pg.Exec(t, "postgres", fmt.Sprintf(`INSERT INTO charges(ref, amount, note) SELECT '%s', 5, 'a note' FROM generate_series(1, %d)`,
			idempotency.OutboundKey(secret, rec.Key), n))
	}
	rec := lose("refunds")
	if f := r.check(rec); f.Found != intent.DidNotHappen {
		t.Errorf("no row: %+v", f)
	}
	insert(rec, 1)
	if f := r.check(rec); f.Found != intent.Happened || !strings.Contains(string(f.Evidence), `"rows":1`) || !strings.Contains(string(f.Read), "a note") {
		t.Errorf("a row: %+v", f)
	}
	if f := r.check(lose("all")); f.Found != intent.Happened { // a query that uses no key
		t.Errorf("without a value: %+v", f)
	}
	insert(rec, 150)
	for _, workflow := range []string{"refunds", "all", "wide", "wrong", "sneaky", "stranger", "nobody"} {
		rec := rec
		if workflow != "refunds" {
			rec = lose(workflow)
		}
		plan, _ := r.set.Plan(rec)
		f, err := plan.Reconciler.Check(t.Context(), rec)
		if err == nil || f.Found != intent.CannotTell || f.Reason != "the database could not be read: "+err.Error() { // the history says why too
			t.Errorf("%s: %+v", workflow, f)
		}
		for _, hidden := range []string{pg.Password(), "hidden-word", "stranger", "127.0.0.1", "nowhere"} {
			if strings.Contains(fmt.Sprint(err), hidden) {
				t.Errorf("%s: %q stands in %v", workflow, hidden, err)
			}
		}
	}
	pg.Exec(t, "postgres", `DO $$ BEGIN IF EXISTS (SELECT FROM spent) THEN RAISE 'a reconciler wrote'; END IF; END $$`)
	mine := r.lose(ledger.Intent{Workflow: "orders", Provider: "mcp", Method: "tools/call", Path: "/mcp/orders", Endpoint: "create"},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create","arguments":{"customer_id":9007199254740993,"item":{"id":"o'x"}}}}`, nil)
	if f := r.check(mine); f.Found != intent.DidNotHappen {
		t.Errorf("no order: %+v", f)
	}
	pg.Exec(t, "postgres", `INSERT INTO orders(customer, item) VALUES (9007199254740993, 'o''x')`)
	if f := r.check(mine); f.Found != intent.Happened {
		t.Errorf("an order: %+v", f)
	}
}

// TestPostgresIsBounded does not wait behind a lock: a check is one of few, and holds no connection for long.
func TestPostgresIsBounded(t *testing.T) {
	pg := pgtest.Start(t)
	pg.Exec(t, "postgres", `CREATE TABLE locked(id int)`, `INSERT INTO locked VALUES (1)`)
	r := newRig(t, strings.NewReplacer("DSN", pg.DSN("postgres"), "STRANGER", pg.DSN("postgres")).Replace(postgresConfig))
	rec := r.lose(ledger.Intent{Workflow: "slow", Provider: "openai", Method: "POST", Path: "/t"}, "", nil)
	if f := r.check(rec); f.Found != intent.Happened {
		t.Errorf("unlocked: %+v", f)
	}
	unlock := pg.Lock(t, "postgres", "locked")
	plan, _ := r.set.Plan(rec)
	if _, err := plan.Reconciler.Check(context.Background(), rec); err == nil || !strings.Contains(err.Error(), "55P03") { // lock_not_available
		t.Errorf("locked: %v", err)
	}
	unlock()
	if f := r.check(rec); f.Found != intent.Happened {
		t.Errorf("unlocked again: %+v", f)
	}
}

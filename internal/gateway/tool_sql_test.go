package gateway_test

import (
	"database/sql"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
)

// TestToolFoundBySQL holds that whoever asks again for a call whose effect a database showed gets what was read, and that until then
// the 409 says what a person can do.
func TestToolFoundBySQL(t *testing.T) {
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "far.db"))
	db, err := sql.Open("sqlite3", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE charges(id INTEGER PRIMARY KEY, ref TEXT)`); err != nil {
		t.Fatal(err)
	}
	calls := 0
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if _, err := db.ExecContext(r.Context(), `INSERT INTO charges(ref) VALUES (?)`, r.Header.Get("Idempotency-Key")); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer far.Close()
	r := newRig(t, func(c *rigConfig) {
		c.yaml = strings.NewReplacer("FAR", far.URL, "FILE", file).Replace(`
env: test
tools:
  shop:
    base_url: FAR
    routes:
      - {match: "POST /charges", key: "{cart}", timeout: 3s, reconcile: {sql: "SELECT id FROM charges WHERE ref = $1", dsn: "sqlite:FILE", happened: "len(result) > 0"}}
`)
	})
	q := request{path: "/tools/shop/charges", body: `{"cart":"c1"}`}
	first := r.must(q, 500)
	id := first.header.Get("Holdfast-Intent")
	held := r.must(q, 409)
	if held.code() != "outcome_unknown" || !strings.Contains(string(held.body), "holdfast intents resolve "+id+" --outcome success|failed --by NAME --reason TEXT") {
		t.Errorf("%s %s", held.code(), held.body)
	}
	r.patrol()
	r.settled(id)
	found := r.must(q, 200)
	if string(found.body) != `[{"id":1}]` || found.header.Get("Holdfast-Reconciled") != "true" || found.header.Get("Idempotency-Replayed") != "true" || found.code() != "" || calls != 1 {
		t.Errorf("%v %s, %d calls", found.header, found.body, calls)
	}
}

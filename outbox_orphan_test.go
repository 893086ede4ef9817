package holdfast

import (
	"bytes"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOutboxWithoutItsTableIsRefused(t *testing.T) {
	s := open(t)
	db, err := sql.Open("sqlite3", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "bare.db")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := s.Outbox(db, OutboxConfig{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "MigrateOutbox") {
		t.Errorf("%v", err)
	}
}

// A row whose name nobody handles is spoken of once it is old: until then another process may do it.
func TestOutboxSpeaksOfRowsThatNobodyHandles(t *testing.T) {
	s, db := open(t), orders(t)
	s.Handle("confirm", (&tally{}).handle)
	place(t, db, "1", true)
	place(t, db, "2", true, func(op *Operation) { op.Name = "confrim" })
	place(t, db, "3", true, func(op *Operation) { op.Name = "confrim" })
	said := func(after time.Duration) string {
		var log bytes.Buffer
		o := (&Engine{logger: slog.New(slog.NewTextHandler(&log, nil)), handlers: s.handlers}).newOutbox(db, OutboxConfig{})
		if err := o.sayOrphans(t.Context(), time.Now().Add(after)); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if log := said(0); log != "" {
		t.Errorf("rows that are new: %s", log)
	}
	if log := said(time.Hour); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "name=confrim rows=2 handlers=[confirm]") {
		t.Errorf("%s", log)
	}
	s.handlers = nil
	if log := said(time.Hour); strings.Count(log, "level=WARN") != 2 {
		t.Errorf("without handlers: %s", log)
	}
}

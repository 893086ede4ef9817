package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// writerSettings make the plans of the writers' statements the same on a new store as on a full one. They are made once and serve for as long as a
// connection lives, and every one of them has a batch of rows that find their partners by primary key; what a planner would think of a table that is
// still empty, a whole scan, would stay.
var writerSettings = map[string]string{
	"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off", "enable_mergejoin": "off", "jit": "off",
}

// session is a connection that writes.
type session struct {
	conn     *pgx.Conn
	slot     int64 // its row in the table writer
	batch    int64 // the number of its last transaction
	types    map[string]uint32
	prepared map[string]string // a statement's name by its text
	texts    [verbs][32]string
}

// connected makes sure of a session.
func (w *writer) connected() error {
	if s := w.session; s != nil {
		if !s.conn.IsClosed() {
			return nil
		}
		w.session = nil
	}
	if w.down != nil && time.Now().Before(w.retryAt) {
		return w.down
	}
	s, err := w.l.newSession()
	if err != nil {
		w.pause = min(max(2*w.pause, reconnectFirst), reconnectMax)
		w.retryAt, w.down = time.Now().Add(w.pause), err
		return err
	}
	w.session, w.pause, w.down = s, 0, nil
	return nil
}

// newSession connects a writer.
func (l *Ledger) newSession() (*session, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.ConnectTimeout)
	defer cancel()
	conf := l.conf.Copy()
	for name, value := range writerSettings {
		setDefault(conf.RuntimeParams, name, value)
	}
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, types: map[string]uint32{}, prepared: map[string]string{}}
	if err := s.introduce(ctx); err != nil {
		l.workers.Go(func() { s.close() })
		return nil, err
	}
	return s, nil
}

// introduce registers the session, and makes sure that its commits are on the disk when they are told.
func (s *session) introduce(ctx context.Context) error {
	for _, name := range append(inputType[:], "body_row", "cached_row") {
		var oid uint32
		if err := s.conn.QueryRow(ctx, `SELECT $1::text::regtype::oid`, name).Scan(&oid); err != nil {
			return err
		}
		s.types[name] = oid
	}
	var commit string
	if err := s.conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&commit); err != nil {
		return err
	}
	if commit == "off" {
		if _, err := s.conn.Exec(ctx, `SET synchronous_commit = on`); err != nil {
			return err
		}
	}
	// Rows of connections that nobody will ask for: a process that ended in between, and has not been back for a month.
	if _, err := s.conn.Exec(ctx, `DELETE FROM writer WHERE at < now() - interval '30 days'`); err != nil {
		return err
	}
	return s.conn.QueryRow(ctx, `INSERT INTO writer DEFAULT VALUES RETURNING id`).Scan(&s.slot)
}

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // it is given up
}

// sql is the text of a verb's statement, made once.
func (s *session) sql(v verb, p parts) string {
	if s.texts[v][p] == "" {
		s.texts[v][p] = v.sql(p)
	}
	return s.texts[v][p]
}

var binaryFormat = []int16{1}

// add appends a statement to a batch, prepared on its first use.
func (s *session) add(ctx context.Context, batch *pgconn.Batch, sql string, params ...[]byte) error {
	name, has := s.prepared[sql]
	if !has {
		name = "w" + strconv.Itoa(len(s.prepared))
		if _, err := s.conn.PgConn().Prepare(ctx, name, sql, nil); err != nil {
			return fmt.Errorf("preparing %.40q: %w", sql, err)
		}
		s.prepared[sql] = name
	}
	batch.ExecPrepared(name, params, binaryFormat, binaryFormat)
	return nil
}

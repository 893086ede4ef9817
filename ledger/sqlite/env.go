package sqlite

import "context"

// Env is the environment that the store is stamped with; it is part of every key in it.
func (l *Ledger) Env(ctx context.Context) (env string, err error) {
	err = l.read.with(ctx, func(r *reader) error {
		env, err = metaText(r.conn, "env")
		return err
	})
	return env, err
}
